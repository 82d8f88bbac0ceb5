#include "transports/verbs/device_filter.h"

#include <charconv>

namespace anello::transport {
namespace {

bool matches(std::string_view entry, bool exact, std::string_view device, int port) {
  const std::size_t colon = entry.find(':');
  const std::string_view name = entry.substr(0, colon);
  if (exact ? device != name : !device.starts_with(name)) return false;
  if (colon == std::string_view::npos) return true;
  const std::string_view digits = entry.substr(colon + 1);
  int number = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number == port;
}

}  // namespace

std::optional<int> place_of_device(std::string_view filter, std::string_view device, int port) {
  const bool excludes = filter.starts_with('^');
  if (excludes) filter.remove_prefix(1);
  const bool exact = filter.starts_with('=');
  if (exact) filter.remove_prefix(1);
  if (filter.empty()) return 0;
  for (int place = 0; !filter.empty(); ++place) {
    const std::size_t comma = filter.find(',');
    const std::string_view entry = filter.substr(0, comma);
    if (!entry.empty() && matches(entry, exact, device, port)) return excludes ? std::nullopt : std::optional(place);
    filter.remove_prefix(comma == std::string_view::npos ? filter.size() : comma + 1);
  }
  return excludes ? std::optional(0) : std::nullopt;
}

}  // namespace anello::transport
