#include "anellorun/endpoint.h"

#include "shared/command_line.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <stdexcept>

namespace anellorun {
namespace {

// Its scope may be of an interface that only the host of rank 0 has.
bool is_ipv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}

}  // namespace

std::string without_brackets(const std::string& host) {
  const bool enclosed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return enclosed ? host.substr(1, host.size() - 2) : host;
}

Endpoint parse_endpoint(const std::string& word) {
  if (is_ipv6(word)) return {word, std::nullopt};
  const auto after = word.front() == '[' ? word.find(']') : 0;
  const auto colon = after == std::string::npos ? after : word.find(':', after);
  Endpoint endpoint{without_brackets(word.substr(0, colon)), std::nullopt};
  const bool six = endpoint.host.size() + 2 == word.substr(0, colon).size();
  if (endpoint.host.empty() || endpoint.host.find_first_of("[]") != std::string::npos || six != is_ipv6(endpoint.host))
    throw std::runtime_error(shared::in_quotes(word) + " is not HOST, HOST:PORT or [IPv6 address]:PORT");
  if (colon == std::string::npos) return endpoint;
  std::string digits = word.substr(colon + 1);
  const std::string wrong = shared::whole(0, 65534)(digits);
  if (!wrong.empty()) throw std::runtime_error(wrong + "; an IPv6 address before a port stands in brackets");
  endpoint.port = std::atoi(digits.c_str());
  return endpoint;
}

}  // namespace anellorun
