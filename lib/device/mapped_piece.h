#pragma once
// What the driver knows of an address, and pieces of mapped memory (cuMemMap), whose descriptors this process passes to
// others when they ask for a piece's key.
#include "device/driver.h"

#include <cstddef>
#include <cstdint>

namespace anello::device {

struct Allocation {
  std::uint64_t id = 0;  // never used again; 0: the address is in none
  std::uint64_t start = 0;
  std::size_t bytes = 0;
  unsigned has_handle = 0;    // for other processes
  unsigned handle_types = 0;  // of mapped memory

  static Allocation at(const kernels::cuda::Driver& driver, std::uint64_t address);
  bool can_be_passed() const { return (handle_types & unsigned(kernels::cuda::kDescriptor)) != 0; }
};

// The key for a piece; the same while the piece is mapped there.
std::uint64_t key_of_piece(const Allocation& piece);

}  // namespace anello::device
