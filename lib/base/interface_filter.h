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

struct NetworkInterface;

// A numeric IPv4 or IPv6 address, this one with or without a scope.
bool is_address(std::string_view word);

class InterfaceFilter {
 public:
  // Empty: all match.
  explicit InterfaceFilter(std::string_view words);

  bool matches(std::string_view name, std::string_view ip) const;
  // The name or the address stands there in full. Such interfaces are preferred to those with a longer name.
  bool names(std::string_view name, std::string_view ip) const;
  // What is wrong with the words, whatever interfaces there are: "the prefix length of 10.1.0.0/33 is not a number from
  // 0 to 32". Empty: nothing.
  std::string fault() const;
  // The words that mean none of these interfaces. None of ^docker: no host needs to have what is not to be used.
  std::vector<std::string> idle_words(const std::vector<NetworkInterface>& among) const;

 private:
  bool word_matches(const std::string& word, std::string_view name, std::string_view ip) const;
  bool one_matches(std::string_view name, std::string_view ip) const;

  bool all_but_ = false;
  bool whole_names_ = false;
  std::vector<std::string> words_;
};

// For a person: that the value of a variable means none of these interfaces, why, and what there is to choose from.
std::string means_none(const std::string& variable, const std::string& value,
                       const std::vector<NetworkInterface>& among);

}  // namespace anello
