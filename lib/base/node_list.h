#pragma once
// A scheduler's list of hosts: "node[01-03,07],login,gpu[1-2]-ib".
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace anello {

struct NodeList {
  std::vector<std::string> names;  // in order; leading zeros are kept
  std::string wrong;               // what is wrong with the list, for people; empty: nothing, and there is a name

  explicit operator bool() const { return wrong.empty(); }
};

// Every name that the list stands for, but at most so many.
NodeList expand_node_list(std::string_view list, std::size_t most);

}  // namespace anello
