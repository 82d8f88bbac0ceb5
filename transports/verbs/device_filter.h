#pragma once
// ANELLO_VERBS_DEVICES: device names, each perhaps with a port, separated by commas: "mlx5_0,mlx5_2:1". A name stands
// for all that begin with it; "=" before the list asks for exact names, "^" (or "^=") for all others. Empty: all.
#include <optional>
#include <string_view>

namespace anello::transport {

// The place in the list of the first that fits; 0 without a list, or for all others. Empty: the port is left out.
std::optional<int> place_of_device(std::string_view filter, std::string_view device, int port);
inline bool takes_device(std::string_view filter, std::string_view device, int port) {
  return place_of_device(filter, device, port).has_value();
}

}  // namespace anello::transport
