#pragma once
// A scheduler's list of hosts: "node[01-03,07],login,gpu[1-2]-ib".
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello {

// The names, in order; leading zeros are kept. Nothing: it is no such list, or has more than most names.
std::optional<std::vector<std::string>> expand_node_list(std::string_view list, std::size_t most);

}  // namespace anello
