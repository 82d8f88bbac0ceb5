#pragma once
// Which network interfaces a person means, in the words of NCCL_SOCKET_IFNAME, and more:
//
//   eth,ib              names that begin with one of these
//   =eth0               this name alone
//   ^docker,lo          all but names that begin with one of these;  ^=docker0: all but this name
//   10.1.0.0/16,fd00::/8, 10.1.2.3     addresses of these networks, or an address itself
#include <string>
#include <string_view>
#include <vector>

namespace anello {

class InterfaceFilter {
 public:
  // Empty: all match.
  explicit InterfaceFilter(std::string_view words);

  bool matches(std::string_view name, std::string_view ip) const;
  // The name or the address stands there in full. Such interfaces are preferred to those with a longer name.
  bool names(std::string_view name, std::string_view ip) const;

 private:
  bool one_matches(std::string_view name, std::string_view ip) const;

  bool all_but_ = false;
  bool whole_names_ = false;
  std::vector<std::string> words_;
};

}  // namespace anello
