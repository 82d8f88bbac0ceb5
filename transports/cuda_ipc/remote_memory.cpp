#include "transports/cuda_ipc/remote_memory.h"

#include "base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace anello::transport {
namespace {

using device::ExportRecord;

ExportRecord record_in(const memory::RegionMapping& page) {
  ExportRecord record;
  if (page.bytes() >= sizeof record) std::memcpy(&record, page.data(), sizeof record);
  return record;
}

// Another process wrote it.
bool is_well_formed(const ExportRecord& record) {
  if (record.magic != ExportRecord::kMagic) return false;
  if (record.way == ExportRecord::Way::handle) return true;
  if (record.way != ExportRecord::Way::pieces || record.count == 0 || record.count > ExportRecord::kMostPieces)
    return false;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < record.count; ++i) {
    if (record.pieces[i].bytes > record.bytes - bytes) return false;
    bytes += record.pieces[i].bytes;
  }
  return bytes == record.bytes;
}

}  // namespace

// What could not be closed while streams waited can be now.
DeviceMemory::~DeviceMemory() {
  entries_.clear();
  device::Imported::close_unused();
}

// Whether the key is of this process.
bool DeviceMemory::take_own(Entry& entry, std::uint64_t key) const {
  const std::optional<ExportRecord> own = device::own_record(key);
  if (!own) return false;
  entry.is_own = true;
  entry.record = *own;
  entry.state = State::refused;
  const device::Device* const other = device::Device::of_uuid(own->device);
  if (other != nullptr && device_.reaches(*other)) entry.state = State::ready;
  return true;
}

// The descriptors of the record's pieces, once all are here.
RemoteMemory::State DeviceMemory::gather_descriptors(const Entry& entry, const RemotePeer& peer,
                                                     std::vector<UniqueFd>* all) {
  bool all_here = true, any_refused = false;
  for (std::size_t i = 0; i < entry.record.count; ++i) {
    const std::uint64_t piece = entry.record.pieces[i].key;
    const auto [found, is_new] = descriptors_.try_emplace(piece);
    if (is_new) request_(peer.world, piece);
    all_here = all_here && found->second.is_here;
    any_refused = any_refused || (found->second.is_here && !found->second.file);
  }
  if (!all_here) return State::asked;
  for (std::size_t i = 0; i < entry.record.count; ++i) {
    const auto found = descriptors_.find(entry.record.pieces[i].key);
    all->push_back(std::move(found->second.file));
    descriptors_.erase(found);
  }
  return any_refused ? State::refused : State::ready;
}

RemoteMemory::State DeviceMemory::open(Entry& entry, const RemotePeer& peer, std::uint64_t key,
                                       const memory::RegionMapping& page) {
  if (entry.record.magic == 0) entry.record = record_in(page);
  if (!is_well_formed(entry.record)) return State::refused;
  std::vector<UniqueFd> descriptors;
  const State state = gather_descriptors(entry, peer, &descriptors);
  if (state != State::ready) return state;
  try {
    entry.imported = device::Imported::open(device_, key, entry.record, descriptors);
    return State::ready;
  } catch (const Error& why_not) {
    log::info(-1, "device memory of rank ", peer.world, " goes through the host: ", why_not.text());
    return State::refused;
  }
}

// Memory that its owner has freed stays allocated as long as it is open.
void DeviceMemory::drop_freed() {
  std::erase_if(entries_, [&](const auto& each) {
    const auto page = records_.mapping(each.first);
    return each.second.imported != nullptr && page != nullptr && record_in(*page).magic != ExportRecord::kMagic;
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
  // A refusal stays, as ranks that wait for several keys ask again whenever one of them comes.
  if (entry.state != State::asked) return entry.state;
  entry.state = records_.look_up(key, [&] { request_(peer.world, key); });
  if (entry.state == State::ready) entry.state = open(entry, peer, key, *records_.mapping(key));
  return entry.state;
}

void DeviceMemory::try_again(std::uint64_t key) {
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.state == State::refused && !found->second.is_own)
    found->second.state = State::asked;
}

void DeviceMemory::answered(std::uint64_t key, memory::PassedRange memory) {
  const auto piece = descriptors_.find(key);
  if (piece == descriptors_.end()) return records_.answered(key, std::move(memory));
  piece->second = {true, std::move(memory.file)};
}

bool DeviceMemory::awaits(std::uint64_t key) const {
  const auto found = entries_.find(key);
  return descriptors_.contains(key) || (found != entries_.end() && found->second.state == State::asked);
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
