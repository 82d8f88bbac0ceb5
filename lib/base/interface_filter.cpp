#include "base/interface_filter.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include <arpa/inet.h>

namespace anello {
namespace {

struct Ip {
  unsigned char bytes[16];
  int bits;  // 32, 128
};

// The scope of an IPv6 address says nothing about its network.
std::optional<Ip> parse_ip(std::string_view word) {
  const std::string text(word.substr(0, word.find('%')));
  Ip ip{};
  if (::inet_pton(AF_INET, text.c_str(), ip.bytes) == 1) return ip.bits = 32, ip;
  if (::inet_pton(AF_INET6, text.c_str(), ip.bytes) == 1) return ip.bits = 128, ip;
  return std::nullopt;
}

bool in_network(std::string_view network, std::string_view address) {
  const std::size_t slash = network.find('/');
  const std::optional<Ip> base = parse_ip(network.substr(0, slash)), ip = parse_ip(address);
  if (!base || !ip || base->bits != ip->bits) return false;
  int bits = base->bits;
  if (slash != std::string_view::npos) {
    const std::string_view digits = network.substr(slash + 1);
    const auto [stop, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (wrong != std::errc{} || stop != digits.data() + digits.size() || bits < 0 || bits > base->bits) return false;
  }
  const int whole = bits / 8, rest = bits % 8;
  if (std::memcmp(base->bytes, ip->bytes, static_cast<std::size_t>(whole)) != 0) return false;
  const auto mask = static_cast<unsigned char>(0xff << (8 - rest));
  return rest == 0 || (base->bytes[whole] & mask) == (ip->bytes[whole] & mask);
}

}  // namespace

InterfaceFilter::InterfaceFilter(std::string_view words) {
  const auto begins_with = [&words](char sign) {
    if (words.empty() || words.front() != sign) return false;
    words.remove_prefix(1);
    return true;
  };
  all_but_ = begins_with('^');
  whole_names_ = begins_with('=');
  while (!words.empty()) {
    const std::size_t comma = std::min(words.find(','), words.size());
    if (comma > 0) words_.emplace_back(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
}

bool InterfaceFilter::one_matches(std::string_view name, std::string_view ip) const {
  return std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    return in_network(word, ip) || (whole_names_ ? name == word : name.substr(0, word.size()) == word);
  });
}

bool InterfaceFilter::matches(std::string_view name, std::string_view ip) const {
  return words_.empty() || one_matches(name, ip) != all_but_;
}

bool InterfaceFilter::names(std::string_view name, std::string_view ip) const {
  return !all_but_ && std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
    return name == word || (word.find('/') == std::string::npos && in_network(word, ip));
  });
}

}  // namespace anello
