#include "device/exported.h"

#include "base/text.h"

#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include <unistd.h>

namespace anello::device {
namespace {

using kernels::cuda::Driver;

struct Allocation {
  std::uint64_t id = 0;  // never used again; 0: the address is in none
  std::uint64_t start = 0;
  std::size_t bytes = 0;
  unsigned has_handle = 0;

  bool holds(std::uint64_t at, std::size_t count) const {
    return at >= start && at - start <= bytes && count <= bytes - (at - start);
  }
};

Allocation allocation_at(const Driver& driver, std::uint64_t address) {
  using namespace kernels::cuda;
  Allocation found;
  std::array<int, 4> names = {kBufferId, kRangeStart, kRangeSize, kHasIpcHandle};
  std::array<void*, 4> into = {&found.id, &found.start, &found.bytes, &found.has_handle};
  const int code = driver.pointer_attributes(unsigned(names.size()), names.data(), into.data(), address);
  return code == 0 ? found : Allocation{};
}

struct Entry {
  ExportRecord* record;
  std::uint64_t key;
};

// Never destroyed: peers may have records open up to the last static destructor.
struct Table {
  std::mutex mutex;
  std::map<std::uint64_t, Entry> by_id;
  std::uint64_t process = 0;
};
Table& table() {
  static Table& all = *new Table;
  return all;
}

void drop_freed(const Driver& driver, Table& all) {
  for (auto entry = all.by_id.begin(); entry != all.by_id.end();) {
    if (allocation_at(driver, entry->second.record->start).id == entry->first) {
      ++entry;
      continue;
    }
    memory::free_region(entry->second.record);
    entry = all.by_id.erase(entry);
  }
}

Entry add(const Device& device, const Allocation& allocation, Table& all) {
  ExportRecord made;
  made.magic = ExportRecord::kMagic;
  made.process = all.process;
  made.start = allocation.start;
  made.bytes = allocation.bytes;
  made.device = device.uuid();
  made.runs_together = device.runs_together() ? 1 : 0;
  made.has_handle = allocation.has_handle;
  if (allocation.has_handle != 0) {
    const Device::Use use(device);
    check(device.driver(), "cuIpcGetMemHandle", device.driver().get_handle(&made.handle, allocation.start));
  }
  std::byte* const page = memory::make_region(std::size_t(getpagesize()));
  std::memcpy(page, &made, sizeof made);
  return {reinterpret_cast<ExportRecord*>(page), memory::find_region(page, 1).region};
}

}  // namespace

Exported export_buffer(const Device& device, const void* address, std::size_t bytes, Sharing with) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const Allocation allocation = allocation_at(device.driver(), at);
  if (!allocation.holds(at, bytes)) return {{}, "it lies in several allocations that are mapped in a row"};
  if (allocation.has_handle == 0 && with == Sharing::processes)
    return {{}, "its allocation has no IPC handle: it is of a pool, or mapped by cuMemMap"};
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  auto entry = all.by_id.find(allocation.id);
  if (entry == all.by_id.end()) {
    if (all.process == 0) all.process = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
    drop_freed(device.driver(), all);
    entry = all.by_id.emplace(allocation.id, add(device, allocation, all)).first;
  }
  return {{entry->second.key, at - allocation.start}, ""};
}

std::optional<ExportRecord> own_record(std::uint64_t key) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (const auto& [id, entry] : all.by_id) {
    if (entry.key == key) return *entry.record;
  }
  return std::nullopt;
}

}  // namespace anello::device
