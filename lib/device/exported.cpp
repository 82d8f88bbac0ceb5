#include "device/exported.h"

#include "base/text.h"
#include "device/mapped_piece.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <unistd.h>

namespace anello::device {
namespace {

using kernels::cuda::Driver;
using Way = ExportRecord::Way;

// Allocations that hold a buffer, one after the other.
struct Span {
  std::vector<Allocation> all;
  std::string why_not;

  std::vector<std::uint64_t> ids() const {
    std::vector<std::uint64_t> found;
    for (const Allocation& each : all) found.push_back(each.id);
    return found;
  }
  Way way() const {
    if (all.size() == 1 && all.front().has_handle != 0) return Way::handle;
    const bool passes =
        std::all_of(all.begin(), all.end(), [](const Allocation& each) { return each.can_be_passed(); });
    return passes && all.size() <= ExportRecord::kMostPieces ? Way::pieces : Way::own_process;
  }
};

Span span_of(const Driver& driver, std::uint64_t address, std::size_t bytes) {
  Span span;
  for (std::uint64_t at = address; at < address + bytes;) {
    const Allocation part = Allocation::at(driver, at);
    if (part.id == 0 || part.start + part.bytes <= at) return {{}, "the driver gives its allocation no number"};
    span.all.push_back(part);
    at = part.start + part.bytes;
  }
  return span;
}

struct Entry {
  ExportRecord* record;
  std::uint64_t key;
};

// Never destroyed: peers may have records open up to the last static destructor.
struct Table {
  std::mutex mutex;
  std::map<std::vector<std::uint64_t>, Entry> by_ids;
  std::uint64_t process = 0;
};
Table& table() {
  static Table& all = *new Table;
  return all;
}

void drop_freed(const Driver& driver, Table& all) {
  std::erase_if(all.by_ids, [&](const auto& each) {
    const auto& [ids, entry] = each;
    std::uint64_t at = entry.record->start;
    bool is_there = true;
    for (const std::uint64_t id : ids) {
      const Allocation now = Allocation::at(driver, at);
      is_there = is_there && now.id == id;
      at += now.bytes;
    }
    if (!is_there) memory::free_region(entry.record);
    return !is_there;
  });
}

ExportRecord record_of(const Device& device, const Span& span, std::uint64_t process) {
  ExportRecord made;
  made.magic = ExportRecord::kMagic;
  made.process = process;
  made.start = span.all.front().start;
  for (const Allocation& each : span.all) made.bytes += each.bytes;
  made.device = device.uuid();
  made.runs_together = device.runs_together() ? 1 : 0;
  made.way = span.way();
  if (made.way == Way::handle) {
    const Device::Use use(device);
    check(device.driver(), "cuIpcGetMemHandle", device.driver().get_handle(&made.handle, made.start));
  } else if (made.way == Way::pieces) {
    for (const Allocation& each : span.all) made.pieces[made.count++] = {key_of_piece(each), each.bytes};
  }
  return made;
}

}  // namespace

Exported export_buffer(const Device& device, const void* address, std::size_t bytes, Sharing with) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const Span span = span_of(device.driver(), at, bytes);
  if (!span.why_not.empty()) return {{}, span.why_not};
  if (span.way() == Way::own_process && with == Sharing::processes)
    return {{}, "its memory has neither an IPC handle nor descriptors: it is of a pool, or was made to be private"};
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const std::vector<std::uint64_t> ids = span.ids();
  auto entry = all.by_ids.find(ids);
  if (entry == all.by_ids.end()) {
    if (all.process == 0) all.process = memory::fresh_identity();
    drop_freed(device.driver(), all);
    const ExportRecord made = record_of(device, span, all.process);
    std::byte* const page = memory::make_region(std::max(sizeof made, std::size_t(getpagesize())));
    std::memcpy(page, &made, sizeof made);
    const std::uint64_t key = memory::find_region(page, 1).region;
    entry = all.by_ids.emplace(ids, Entry{reinterpret_cast<ExportRecord*>(page), key}).first;
  }
  return {{entry->second.key, at - span.all.front().start}, ""};
}

std::optional<ExportRecord> own_record(std::uint64_t key) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (const auto& [ids, entry] : all.by_ids) {
    if (entry.key == key) return *entry.record;
  }
  return std::nullopt;
}

}  // namespace anello::device
