#pragma once
// The arguments that a launch passes to a kernel by value. Host and device compilers must give it the same layout.
#include <cstdint>

namespace anello::kernels::cuda {

inline constexpr int kMaxOperands = 8;   // sources, and destinations
inline constexpr int kMaxThreads = 512;  // of a block; any multiple of kWarp up to this works
inline constexpr int kWarp = 32;

struct Arguments {
  const unsigned char* sources[kMaxOperands];
  unsigned char* destinations[kMaxOperands];
  std::uint64_t count;  // elements of the kernel's type
  std::uint32_t head;   // the elements before the first address at which all pointers have the granule's alignment
  std::int32_t source_count;
  std::int32_t destination_count;
  std::int32_t ranks;     // AVG divides by it
  std::int32_t sums_in;   // the first source holds sums, in the type of sums. For wide kernels only
  std::int32_t sums_out;  // the destinations take sums, neither divided nor rounded. For wide kernels only
  alignas(16) unsigned char factor[16];  // in the type of sums; PROD of one source multiplies the source by this
};
static_assert(sizeof(Arguments) == 176);

struct MoveArguments {
  const unsigned char* from;
  unsigned char* to;
  float* residual;       // null: none
  std::uint32_t* found;  // null: infinities and NaN are not looked for
  std::uint64_t count;
  double factor;
  std::int32_t has_packets;  // whether all addresses are aligned for them
};
static_assert(sizeof(MoveArguments) == 56);

}  // namespace anello::kernels::cuda
