#include "transports/cuda_ipc/remote_memory.h"

#include "base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace anello::transport {
namespace {

device::ExportRecord record_in(const memory::RegionMapping& page) {
  device::ExportRecord record;
  if (page.bytes() >= sizeof record) std::memcpy(&record, page.data(), sizeof record);
  return record;
}

}  // namespace

// Whether the key is of this process.
bool DeviceMemory::take_own(Entry& entry, std::uint64_t key) const {
  const std::optional<device::ExportRecord> own = device::own_record(key);
  if (!own) return false;
  entry.record = *own;
  entry.state = State::refused;
  const device::Device* const other = device::Device::of_uuid(own->device);
  if (other != nullptr && device_.reaches(*other)) entry.state = State::ready;
  return true;
}

void DeviceMemory::take(Entry& entry, std::uint64_t key, const memory::RegionMapping& page) const {
  entry.state = State::refused;
  entry.record = record_in(page);
  if (entry.record.magic != device::ExportRecord::kMagic || entry.record.has_handle == 0) return;
  try {
    entry.imported = device::Imported::open(device_, key, entry.record);
    entry.state = State::ready;
  } catch (const Error& why_not) {
    log::info(-1, "another process's device memory goes through the host: ", why_not.text());
  }
}

// Memory that its owner has freed stays allocated as long as it is open.
void DeviceMemory::drop_freed() {
  std::erase_if(entries_, [&](const auto& each) {
    const auto page = records_.mapping(each.first);
    return each.second.imported != nullptr && page != nullptr && record_in(*page).magic != device::ExportRecord::kMagic;
  });
  if (entries_.size() < kMost) return;
  entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                  [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

RemoteMemory::State DeviceMemory::prepare(const RemotePeer& peer, std::uint64_t key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    drop_freed();
    found = entries_.emplace(key, Entry{}).first;
    if (take_own(found->second, key)) return found->second.state;
  }
  Entry& entry = found->second;
  entry.used = ++clock_;
  if (entry.state != State::asked) return entry.state;
  entry.state = records_.look_up(key, [&] { request_(peer.world, key); });
  if (entry.state == State::ready) take(entry, key, *records_.mapping(key));
  return entry.state;
}

bool DeviceMemory::awaits(std::uint64_t key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.state == State::asked;
}

std::byte* DeviceMemory::map(const RemotePeer& /*peer*/, const RemoteAddress& at, std::size_t bytes,
                             std::shared_ptr<const void>* kept) {
  const auto found = entries_.find(at.key);
  if (found == entries_.end() || found->second.state != State::ready) return nullptr;
  const Entry& entry = found->second;
  if (at.offset > entry.record.bytes || bytes > entry.record.bytes - at.offset) return nullptr;
  *kept = entry.imported;
  std::byte* const start =
      entry.imported != nullptr ? entry.imported->data() : reinterpret_cast<std::byte*>(entry.record.start);
  return start == nullptr ? nullptr : start + at.offset;
}

std::optional<DevicePlace> DeviceMemory::place_of(std::uint64_t key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.state != State::ready) return std::nullopt;
  return DevicePlace{found->second.record.device, found->second.record.runs_together != 0};
}

int DeviceMemory::get_now(const Transfer& /*transfer*/) { return ENOTSUP; }

int DeviceMemory::put_now(const Transfer& /*transfer*/) { return ENOTSUP; }

std::optional<Transferred> DeviceMemory::poll() {
  if (ended_.empty()) return std::nullopt;
  const Transferred first{ended_.front(), ENOTSUP};
  ended_.pop_front();
  return first;
}

}  // namespace anello::transport
