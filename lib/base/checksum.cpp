#include "base/checksum.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace anello {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bits reversed

// Processes eight bytes at a time: table[k] is the remainder of a byte followed by k zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr Tables kTables = [] {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = crc >> 8 ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}();

std::uint64_t load(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)

// The remainder of a stretch followed by `kStretch` zero bytes, computed for each byte of the remainder. An instruction
// takes three cycles, and one can begin in each cycle, so three parallel stretches take as long as one.
template <std::size_t kStretch>
struct Shift {
  std::uint32_t by_byte[4][256];

  // x^(8 * kStretch) modulo the polynomial, times a remainder.
  static constexpr std::uint32_t times(std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (int bit = 0; bit < 32; ++bit) {
      if (a >> (31 - bit) & 1) product ^= b;
      b = b >> 1 ^ (b & 1 ? kPolynomial : 0);
    }
    return product;
  }
  constexpr Shift() : by_byte{} {
    std::uint32_t square = 0x40000000, shift = 0x80000000;  // x, 1
    for (std::size_t bits = 8 * kStretch; bits != 0; bits >>= 1) {
      if (bits & 1) shift = times(shift, square);
      square = times(square, square);
    }
    for (int place = 0; place < 4; ++place) {
      for (std::uint32_t byte = 0; byte < 256; ++byte) by_byte[place][byte] = times(byte << (8 * place), shift);
    }
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return by_byte[0][crc & 0xff] ^ by_byte[1][crc >> 8 & 0xff] ^ by_byte[2][crc >> 16 & 0xff] ^ by_byte[3][crc >> 24];
  }
};
constexpr std::size_t kLong = 4096, kShort = 256;
constexpr Shift<kLong> kLongShift;
constexpr Shift<kShort> kShortShift;

template <std::size_t kStretch>
__attribute__((target("sse4.2"))) inline std::uint64_t three(std::uint64_t crc, const std::byte*& at,
                                                             std::size_t& count, const Shift<kStretch>& shift) {
  for (; count >= 3 * kStretch; at += 3 * kStretch, count -= 3 * kStretch) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      crc = _mm_crc32_u64(crc, load(at + i));
      second = _mm_crc32_u64(second, load(at + kStretch + i));
      third = _mm_crc32_u64(third, load(at + 2 * kStretch + i));
    }
    crc = shift(std::uint32_t(crc)) ^ second;
    crc = shift(std::uint32_t(crc)) ^ third;
  }
  return crc;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t before, const std::byte* at,
                                                               std::size_t count) {
  std::uint64_t crc = ~before;
  crc = three(crc, at, count, kLongShift);
  crc = three(crc, at, count, kShortShift);
  for (; count >= 8; at += 8, count -= 8) crc = _mm_crc32_u64(crc, load(at));
  auto rest = std::uint32_t(crc);
  for (; count > 0; ++at, --count) rest = _mm_crc32_u8(rest, std::to_integer<std::uint8_t>(*at));
  return ~rest;
}

bool has_instruction() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
  }();
  return has;
}

#endif

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t before, const void* bytes, std::size_t count) {
  const auto* at = static_cast<const std::byte*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= 8; at += 8, count -= 8) {
    const std::uint64_t word = load(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; count > 0; ++at, --count) crc = crc >> 8 ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(std::uint32_t before, const void* bytes, std::size_t count) {
#if defined(__x86_64__)
  if (has_instruction()) return by_instruction(before, static_cast<const std::byte*>(bytes), count);
#endif
  return crc32c_by_table(before, bytes, count);
}

}  // namespace anello
