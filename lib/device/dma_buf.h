#pragma once
// Device memory for the host's adapters, which load and store it by themselves: the driver makes a dma-buf of an
// allocation, and an adapter's driver registers that. After stores_are_seen() has returned, the device's later work
// loads what adapters have stored.
#include "base/unique_fd.h"
#include "device/device.h"
#include "device/mapped_piece.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace anello::device {

struct DmaBuf {
  UniqueFd file;             // may be closed once an adapter has registered it
  std::uint64_t offset = 0;  // of the allocation in it
};

// Why adapters cannot use the device's memory; "": they can.
std::string why_no_dma_bufs(const Device& device);
// The allocation that holds all of the buffer; its id is 0 if none does: it has been freed, or was mapped in pieces.
Allocation allocation_of(const Device& device, const void* address, std::size_t bytes);
bool is_there(const Device& device, const Allocation& allocation);
// Throws Error.
DmaBuf dma_buf_of(const Device& device, const Allocation& allocation);

// Called after an adapter has said that it has stored. Throws Error.
void stores_are_seen(const Device& device);

}  // namespace anello::device
