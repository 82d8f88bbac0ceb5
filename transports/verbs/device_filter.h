#pragma once
// ANELLO_VERBS_DEVICES: device names, each perhaps with a port, separated by commas: "mlx5_0,mlx5_2:1". A name stands
// for all that begin with it; "=" before the list asks for exact names, "^" (or "^=") for all others. Empty: all.
#include <string_view>

namespace anello::transport {

bool takes_device(std::string_view filter, std::string_view device, int port);

}  // namespace anello::transport
