#pragma once
// Device memory of this process that other processes of its host can open. Each allocation has a record, which lies in
// a region (memory/region.h) whose identity is the allocation's key: so records travel as regions do. The record of an
// allocation that has been freed is emptied when that is seen.
#include "device/device.h"
#include "memory/region.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace anello::device {

struct ExportRecord {
  static constexpr std::uint64_t kMagic = 0x616e656c6c6f6970;
  std::uint64_t magic = 0;
  std::uint64_t process = 0;  // random
  std::uint64_t start = 0;    // in that process
  std::uint64_t bytes = 0;
  Device::Uuid device{};
  std::uint32_t runs_together = 0;  // Device::runs_together
  std::uint32_t has_handle = 0;     // 0: only this process reaches it
  kernels::cuda::IpcHandle handle{};
};

struct Exported {
  memory::RegionSpot spot;  // none: it cannot be shared
  std::string why_not;
};
// For whom: ranks of other processes have to open the allocation.
enum class Sharing { threads, processes };
// A buffer in the memory of this device. Throws Error.
Exported export_buffer(const Device& device, const void* address, std::size_t bytes, Sharing with);
// The record of an allocation of this process; none: it has been freed, or the key is another process's.
std::optional<ExportRecord> own_record(std::uint64_t key);

}  // namespace anello::device
