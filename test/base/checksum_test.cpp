#include "base/checksum.h"
#include "support/catch.h"

#include <random>
#include <vector>

using namespace anello;

TEST_CASE("the checksum is CRC-32C, by the instruction and by tables") {
  // RFC 3720, B.4.
  const std::vector<unsigned char> zeros(32, 0), ones(32, 0xff);
  for (const auto sum : {crc32c, crc32c_by_table}) {
    CHECK(sum(0, "123456789", 9) == 0xe3069283);
    CHECK(sum(0, zeros.data(), zeros.size()) == 0x8a9136aa);
    CHECK(sum(0, ones.data(), ones.size()) == 0x62a8ab43);
    CHECK(sum(0, nullptr, 0) == 0);
  }
}

TEST_CASE("both checksums agree on any length and place, at once and piece by piece") {
  std::mt19937 random(3);
  std::vector<unsigned char> bytes(40'000);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  for (int round = 0; round < 300; ++round) {
    const std::size_t at = random() % 64, count = random() % (round % 2 == 0 ? 39'000 : 1000),
                      cut = random() % (count + 1);
    CAPTURE(at, count, cut);
    const std::uint32_t whole = crc32c(0, bytes.data() + at, count);
    CHECK(whole == crc32c_by_table(0, bytes.data() + at, count));
    CHECK(whole == crc32c(crc32c(0, bytes.data() + at, cut), bytes.data() + at + cut, count - cut));
  }
}
