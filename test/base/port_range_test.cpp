#include "base/port_range.h"
#include "support/catch.h"

#include <algorithm>

using namespace anello;

TEST_CASE("a range of ports") {
  int low = -1, high = -1;
  CHECK(parse_port_range("", low, high));
  CHECK((low == 0 && high == 0));
  CHECK(parse_port_range("30000-30100", low, high));
  CHECK((low == 30000 && high == 30100));
  CHECK(parse_port_range("7-7", low, high));
  for (const char* wrong : {"1", "-", "1-", "-1", "0-5", "5-4", "1-65536", "1-2-3", "1 - 2", "a-b", "99999999999-2"}) {
    INFO(wrong);
    CHECK_FALSE(parse_port_range(wrong, low, high));
  }
}

TEST_CASE("a process tries each port of a range once, and any port without a range") {
  CHECK(ports_in_turn("") == std::vector<std::uint16_t>{0});
  std::vector<std::uint16_t> ports = ports_in_turn("65530-65535");
  std::sort(ports.begin(), ports.end());
  CHECK(ports == std::vector<std::uint16_t>{65530, 65531, 65532, 65533, 65534, 65535});
}
