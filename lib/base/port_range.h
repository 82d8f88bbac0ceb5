#pragma once
// The TCP ports on which a process may listen (ANELLO_PORT_RANGE).
#include <cstdint>
#include <string_view>
#include <vector>

namespace anello {

// "30000-30100". 0 and 0: any. False: words are no such range.
bool parse_port_range(std::string_view words, int& low, int& high);
// All ports of the range, in the order in which this process tries them; 0: the kernel chooses. Processes begin at
// different ones.
std::vector<std::uint16_t> ports_in_turn(std::string_view range);

}  // namespace anello
