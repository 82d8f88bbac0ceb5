// Where ranks meet on this host.
#include "anellorun/socket_address.h"
#include "anellorun/job.h"
#include "support/catch.h"

#include <algorithm>

using namespace anellorun;

TEST_CASE("a meeting place is at no port that the library refuses") {
  auto ports = allowed_ports("65530-65535");
  std::sort(ports.begin(), ports.end());
  CHECK(ports == std::vector<std::uint16_t>{65530, 65531, 65532, 65533, 65534});
  CHECK_THROWS_WITH(allowed_ports("65535-65535"),
                    "ANELLO_PORT_RANGE=65535-65535 has no port for the meeting place, from 1 to 65534");
}
