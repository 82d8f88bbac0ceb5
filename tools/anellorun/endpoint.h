#pragma once
#include <optional>
#include <string>

namespace anellorun {

struct Endpoint {
  std::string host;         // an IPv6 address has no brackets
  std::optional<int> port;  // 0: any free one
};

// "alpha:29400", "10.1.2.3", "fd00::1", "[fe80::1%eth0]:29400". Throws std::runtime_error, which names the mistake.
Endpoint parse_endpoint(const std::string& word);

// "[fd00::1]" as "fd00::1", and any other host as it is.
std::string without_brackets(const std::string& host);

}  // namespace anellorun
