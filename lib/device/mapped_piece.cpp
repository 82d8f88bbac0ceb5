#include "device/mapped_piece.h"

#include "memory/region.h"

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include <fcntl.h>

namespace anello::device {
namespace {

using kernels::cuda::Driver;

struct Table {
  std::mutex mutex;
  std::map<std::uint64_t, Allocation> by_key;
  std::map<std::uint64_t, std::uint64_t> keys;  // by the allocation's number
};
Table& table() {
  static Table& all = *new Table;
  return all;
}

void drop_freed(const Driver& driver, Table& all) {
  std::erase_if(all.by_key, [&](const auto& each) {
    const Allocation& piece = each.second;
    if (Allocation::at(driver, piece.start).id == piece.id) return false;
    all.keys.erase(piece.id);
    return true;
  });
}

// Its descriptor, for the process that asks for the key; made anew for each, so that none is kept.
memory::PassedRange pass_piece(std::uint64_t key) {
  const Driver& driver = kernels::cuda::driver();
  Allocation piece;
  {
    const std::lock_guard lock(table().mutex);
    const auto found = table().by_key.find(key);
    if (found == table().by_key.end()) return {};
    piece = found->second;
  }
  std::uint64_t handle = 0;
  if (driver.handle_at(&handle, reinterpret_cast<void*>(piece.start)) != 0) return {};
  int file = -1;
  const bool is_there = Allocation::at(driver, piece.start).id == piece.id;
  const int code = is_there ? driver.pass_memory(&file, handle, kernels::cuda::kDescriptor, 0) : -1;
  driver.release_handle(handle);
  if (code != 0) return {};
  ::fcntl(file, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(file), 0, piece.bytes};
}

}  // namespace

Allocation Allocation::at(const Driver& driver, std::uint64_t address) {
  using namespace kernels::cuda;
  Allocation found;
  void* pool = nullptr;
  std::array<int, 6> names = {kBufferId, kRangeStart, kRangeSize, kHasIpcHandle, kHandleTypes, kPool};
  std::array<void*, 6> into = {&found.id, &found.start, &found.bytes, &found.has_handle, &found.handle_types, &pool};
  if (driver.pointer_attributes(unsigned(names.size()), names.data(), into.data(), address) != 0) return {};
  if (found.has_handle != 0 || pool != nullptr) return found;
  // Mapped memory: its range is all that was reserved together. (Other allocations may share a mapping.)
  std::array<int, 2> of_mapping = {kMappingStart, kMappingSize};
  std::array<void*, 2> mapping = {&found.start, &found.bytes};
  return driver.pointer_attributes(2, of_mapping.data(), mapping.data(), address) == 0 ? found : Allocation{};
}

std::uint64_t key_of_piece(const Allocation& piece) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  memory::also_pass(pass_piece);
  if (const auto known = all.keys.find(piece.id); known != all.keys.end()) return known->second;
  drop_freed(kernels::cuda::driver(), all);
  const std::uint64_t key = memory::fresh_identity();
  all.keys[piece.id] = key;
  all.by_key[key] = piece;
  return key;
}

}  // namespace anello::device
