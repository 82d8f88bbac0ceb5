#pragma once
// The simulator's number: an element that remembers its expression.
#include <cstddef>
#include <cstdint>

namespace anello::schedule {

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct Symbol {
  std::uint64_t hash = 0;     // of the expression
  std::uint64_t origins = 0;  // sum of the fingerprints of all leaves in it: equal sums, equal multisets
  std::uint32_t inputs = 0;
  bool written = false;
  bool finished = false;
};

inline std::uint64_t fingerprint(int rank, std::size_t index) {
  return mix(mix(0xa5a5'0000'0000'0000u + static_cast<std::uint64_t>(rank)) + index);
}

inline Symbol leaf(int rank, std::size_t index) {
  return {mix(mix(static_cast<std::uint64_t>(rank) + 1) ^ (index * 0x9e3779b97f4a7c15u)), fingerprint(rank, index), 1,
          true, false};
}

inline Symbol combine(const Symbol& left, const Symbol& right) {
  return {mix(left.hash * 3 + mix(right.hash)), left.origins + right.origins, left.inputs + right.inputs, true, false};
}

inline Symbol finished(const Symbol& value) {
  return {mix(value.hash ^ 0xf1f1f1f1f1f1f1f1u), value.origins, value.inputs, true, true};
}

}  // namespace anello::schedule
