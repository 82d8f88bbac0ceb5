#include "device/imported.h"

#include "base/unique_fd.h"
#include "device/waiting_streams.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace anello::device {
namespace {

// What is open here, and nobody uses.
struct Unused {
  const Device* device;
  std::uint64_t at;
  std::size_t mapped;  // bytes of pieces; 0: it was opened by a handle

  void close() const noexcept {
    try {
      const Device::Use use(*device);
      const kernels::cuda::Driver& driver = device->driver();
      if (mapped == 0) {
        driver.close_handle(at);
      } else {
        driver.unmap_memory(at, mapped);
        driver.free_addresses(at, mapped);
      }
    } catch (const Error&) {
      // The driver has gone, and all of it with it.
    }
  }
};

// Never destroyed: when static objects are, the driver may have gone, and what is open stays open.
struct Table {
  std::mutex mutex;
  std::map<std::pair<int, std::uint64_t>, std::weak_ptr<Imported>> by_key;  // and device
  std::vector<Unused> unused;
};
Table& table() {
  static Table& all = *new Table;
  return all;
}

// Under the table's lock.
void close_all(Table& all) noexcept {
  if (all.unused.empty()) return;
  WaitingStreams::do_if_none([&] {
    for (const Unused& each : std::exchange(all.unused, {})) each.close();
  });
}

}  // namespace

Imported::Imported(Device& device, const ExportRecord& record)
    : device_(device),
      process_(record.process),
      start_(record.start),
      bytes_(record.bytes),
      is_mapped_(record.way == ExportRecord::Way::pieces) {}

void Imported::open_handle(const ExportRecord& record) {
  check(device_.driver(), "cuIpcOpenMemHandle",
        device_.driver().open_handle(&at_, record.handle, kernels::cuda::kReachPeer));
}

void Imported::map_pieces(const ExportRecord& record, const std::vector<UniqueFd>& pieces) {
  const kernels::cuda::Driver& driver = device_.driver();
  std::uint64_t at = 0;
  check(driver, "cuMemAddressReserve", driver.reserve_addresses(&at, bytes_, 0, 0, 0));
  std::uint64_t mapped = 0;
  try {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::uint64_t handle = 0;
      auto* const file = reinterpret_cast<void*>(std::intptr_t{pieces[i].get()});
      check(driver, "cuMemImportFromShareableHandle", driver.take_memory(&handle, file, kernels::cuda::kDescriptor));
      const int code = driver.map_memory(at + mapped, record.pieces[i].bytes, 0, handle, 0);
      driver.release_handle(handle);  // mapped memory stays
      check(driver, "cuMemMap", code);
      mapped += record.pieces[i].bytes;
    }
    kernels::cuda::MemoryAccess access;
    access.place.device = device_.number();
    check(driver, "cuMemSetAccess", driver.allow_access(at, mapped, &access, 1));
  } catch (const Error&) {
    if (mapped > 0) driver.unmap_memory(at, mapped);
    driver.free_addresses(at, bytes_);
    throw;
  }
  at_ = at;
}

std::shared_ptr<Imported> Imported::open(Device& device, std::uint64_t key, const ExportRecord& record,
                                         const std::vector<UniqueFd>& pieces) {
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
    // Records of mapped memory may share pieces.
    if (!apart && !other->is_mapped_) other->leave();
  }
  close_all(all);
  std::shared_ptr<Imported> made(new Imported(device, record));
  held.push_back(made);
  const Device::Use use(device);
  made->is_mapped_ ? made->map_pieces(record, pieces) : made->open_handle(record);
  all.by_key[{device.number(), key}] = made;
  return made;
}

// Under the table's lock.
void Imported::leave() noexcept {
  const std::uint64_t at = std::exchange(at_, 0);
  if (at == 0 || in_forked_child()) return;
  try {
    table().unused.push_back({&device_, at, is_mapped_ ? bytes_ : 0});
  } catch (const std::bad_alloc&) {
    // It stays open.
  }
}

Imported::~Imported() {
  const std::lock_guard lock(table().mutex);
  leave();
  close_all(table());
}

void Imported::close_unused() noexcept {
  const std::lock_guard lock(table().mutex);
  close_all(table());
}

std::byte* Imported::data() const {
  const std::lock_guard lock(table().mutex);
  return reinterpret_cast<std::byte*>(at_);
}

void Imported::keep_for_ever(std::shared_ptr<const void> mapping) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);  // ranks that are threads have a lock each
  all.push_back(std::move(mapping));
}

}  // namespace anello::device
