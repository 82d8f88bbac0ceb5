// Where ranks meet on this host.
#include "anellorun/socket_address.h"
#include "anellorun/job.h"
#include "support/catch.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

using namespace anellorun;

TEST_CASE("a meeting place is at no port that the library refuses") {
  auto ports = allowed_ports("65530-65535");
  std::sort(ports.begin(), ports.end());
  CHECK(ports == std::vector<std::uint16_t>{65530, 65531, 65532, 65533, 65534});
  CHECK_THROWS_WITH(allowed_ports("65535-65535"),
                    "ANELLO_PORT_RANGE=65535-65535 has no port for the meeting place, from 1 to 65534");
}

TEST_CASE("a port that cannot be had for another reason is not said to be in use") {
  SocketAddress taken = socket_address("127.0.0.1", 0);
  const Descriptor listener = listen_at(taken);
  const std::string port = std::to_string(taken.port()), range = port + "-" + port;
  CHECK_THROWS_WITH(place_on_this_host(range), "port " + port + " is in use");

  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::string said;
  try {
    place_on_this_host(range);
  } catch (const std::runtime_error& failure) {
    said = failure.what();
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(said == "cannot listen at port " + port + ": Too many open files");
}

TEST_CASE("why none of the allowed ports could be had") {
  CHECK(none_free("7-9", EADDRINUSE) == "no port of ANELLO_PORT_RANGE=7-9 is free");
  CHECK(none_free("7-9", EACCES) == "cannot listen at a port of ANELLO_PORT_RANGE=7-9: Permission denied");
  CHECK(none_free("7-7", EACCES) == "cannot listen at port 7: Permission denied");
  CHECK(none_free("", EMFILE) == "cannot listen at any port: Too many open files");
}
