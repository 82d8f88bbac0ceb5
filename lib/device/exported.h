#pragma once
// Device memory of this process that other processes of its host can open: an allocation by its IPC handle, memory that
// was mapped in pieces (cuMemMap) by a descriptor for each. What a buffer needs has a record, which lies in a region
// (memory/region.h) whose identity is its key: so records travel as regions do. The record of memory that has been
// freed is emptied when that is seen.
#include "device/device.h"
#include "memory/region.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace anello::device {

struct ExportRecord {
  static constexpr std::uint64_t kMagic = 0x616e656c6c6f6970;
  // A record and its pieces fit into a page.
  static constexpr std::size_t kMostPieces = 200;
  enum class Way : std::uint32_t { own_process, handle, pieces };
  struct Piece {
    std::uint64_t key = 0;  // of its descriptor, which control passes as that of a region
    std::uint64_t bytes = 0;
  };

  std::uint64_t magic = 0;
  std::uint64_t process = 0;  // random
  std::uint64_t start = 0;    // in that process
  std::uint64_t bytes = 0;
  Device::Uuid device{};
  std::uint32_t runs_together = 0;  // Device::runs_together
  Way way = Way::own_process;
  kernels::cuda::IpcHandle handle{};
  std::uint64_t count = 0;  // of the pieces, in their order
  Piece pieces[kMostPieces];
};
static_assert(sizeof(ExportRecord) <= 4096);

struct Exported {
  memory::RegionSpot spot;  // none: it cannot be shared
  std::string why_not;
};
// For whom: ranks of other processes have to open the memory.
enum class Sharing { threads, processes };
// A buffer in the memory of this device. Throws Error.
Exported export_buffer(const Device& device, const void* address, std::size_t bytes, Sharing with);
// The record of memory of this process; none: it has been freed, or the key is another process's.
std::optional<ExportRecord> own_record(std::uint64_t key);

}  // namespace anello::device
