#include "base/port_range.h"

#include <charconv>
#include <cstddef>
#include <system_error>

#include <unistd.h>

namespace anello {

bool parse_port_range(std::string_view words, int& low, int& high) {
  low = high = 0;
  if (words.empty()) return true;
  const char* const end = words.data() + words.size();
  const auto [dash, wrong] = std::from_chars(words.data(), end, low);
  if (wrong != std::errc{} || dash == end || *dash != '-') return false;
  const auto [stop, wrong_too] = std::from_chars(dash + 1, end, high);
  return wrong_too == std::errc{} && stop == end && low >= 1 && low <= high && high <= 65535;
}

std::vector<std::uint16_t> ports_in_turn(std::string_view range) {
  int low = 0, high = 0;
  if (!parse_port_range(range, low, high) || low == 0) return {0};
  const int count = high - low + 1, begin = ::getpid() % count;
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < count; ++i) ports.push_back(static_cast<std::uint16_t>(low + (begin + i) % count));
  return ports;
}

}  // namespace anello
