#include "device/imported.h"

#include "base/unique_fd.h"
#include "device/pinned.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace anello::device {
namespace {

// Never destroyed: when static objects are, the driver may have gone, and what is open stays open.
struct Table {
  std::mutex mutex;
  std::map<std::pair<int, std::uint64_t>, std::weak_ptr<Imported>> by_key;  // and device
  std::size_t open = 0;
  std::vector<std::pair<const Device*, std::uint64_t>> unused;  // still open
};
Table& table() {
  static Table& all = *new Table;
  return all;
}

// To close memory may wait for all that the device does. Under the table's lock.
void close_unused(Table& all) noexcept {
  if (streams_wait()) return;
  for (const auto& [device, at] : std::exchange(all.unused, {})) {
    --all.open;
    try {
      const Device::Use use(*device);
      device->driver().close_handle(at);
    } catch (const Error&) {
      // The driver has gone, and all of it with it.
    }
  }
}

}  // namespace

Imported::Imported(Device& device, const ExportRecord& record)
    : device_(device), process_(record.process), start_(record.start), bytes_(record.bytes) {
  const Device::Use use(device);
  check(device.driver(), "cuIpcOpenMemHandle",
        device.driver().open_handle(&at_, record.handle, kernels::cuda::kReachPeer));
  ++table().open;
}

std::shared_ptr<Imported> Imported::open(Device& device, std::uint64_t key, const ExportRecord& record) {
  Table& all = table();
  std::vector<std::shared_ptr<Imported>> held;  // until the lock is free, which the last owner needs
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_key, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [which, each] : all.by_key) {
    held.push_back(each.lock());
    Imported* const other = held.back().get();
    if (other == nullptr || &other->device_ != &device || other->process_ != record.process) continue;
    if (which.second == key && other->at_ != 0) return held.back();
    const bool apart = other->start_ + other->bytes_ <= record.start || record.start + record.bytes <= other->start_;
    if (!apart) other->leave();
  }
  close_unused(all);
  std::shared_ptr<Imported> made(new Imported(device, record));
  all.by_key[{device.number(), key}] = made;
  return made;
}

// Under the table's lock.
void Imported::leave() noexcept {
  const std::uint64_t at = std::exchange(at_, 0);
  if (at == 0 || in_forked_child()) return;
  try {
    table().unused.emplace_back(&device_, at);
  } catch (const std::bad_alloc&) {
    // It stays open.
  }
}

Imported::~Imported() {
  const std::lock_guard lock(table().mutex);
  leave();
  close_unused(table());
}

std::byte* Imported::data() const {
  const std::lock_guard lock(table().mutex);
  return reinterpret_cast<std::byte*>(at_);
}

std::size_t imports_open() {
  const std::lock_guard lock(table().mutex);
  return table().open;
}

}  // namespace anello::device
