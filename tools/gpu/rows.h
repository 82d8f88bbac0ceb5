#pragma once
// The rows that this program runs; the numbers are those of the plan in docs/gpu.md.
#include "gpu/device.h"

namespace gpu {

// Sizes that are smaller if no device is measured.
struct Sizes {
  std::size_t large = std::size_t{256} << 20;  // bytes of a measured buffer: five times any L2 cache
  std::size_t count = (std::size_t{1} << 20) + 3;
  bool all_offsets = true;
};

void inventory(Device& device);                          // 0
void roofline(Device& device, const Sizes& sizes);       // 2
void correctness(Device& device, const Sizes& sizes);    // 3
void rates(Device& device, const Sizes& sizes);          // 4
void operations(Device& device, const Sizes& sizes);     // 4b
void shapes(Device& device, const Sizes& sizes);         // 4c
void beside_others(Device& device, const Sizes& sizes);  // 4d: milliseconds only; the script compares
void curve(Device& device, const Sizes& sizes);          // 4e

// Part of row 3: returns "" or the error in float32 sums of a type; counts its cases.
std::string wrong_sums(Device& device, anello_dtype_t dtype, const Sizes& sizes, std::size_t& cases);

// The bytes that a copy on the device reads and writes per second, in TB/s: the B of all bounds.
double copy_rate(Device& device, std::size_t bytes);

}  // namespace gpu
