#include "model/memory.h"

#include "model/part.h"
#include "support/device_memory.h"

#include <anello/anello.h>

#include <algorithm>
#include <mutex>

namespace anello::model {
namespace {

// Regions that are given back here are used again, so that ranks meet some that they know and some that they do not.
struct Spare {
  std::mutex mutex;
  std::vector<std::pair<void*, std::size_t>> regions;
};
Spare& spare() {
  static Spare instance;
  return instance;
}
constexpr std::size_t kMostSpare = 16;
constexpr std::size_t kRegionBytes = std::size_t{1} << 18;

}  // namespace

Memory::Memory(std::size_t bytes, int shift, Place place)
    : bytes_(bytes), shift_(std::size_t(shift)), size_(bytes + 2 * kMargin + 16) {
  if (place != Place::mapped) {
    own_.resize(size_);
    all_ = own_.data();
    if (place == Place::device) device_ = static_cast<unsigned char*>(test::device_allocate(size_));
  } else {
    const std::lock_guard held(spare().mutex);
    if (size_ <= kRegionBytes && !spare().regions.empty()) {
      region_ = spare().regions.back().first;
      spare().regions.pop_back();
    } else if (anello_mem_alloc(std::max(size_, kRegionBytes), &region_) != ANELLO_OK) {
      throw Wrong(std::string("mem_alloc: ") + anello_last_error(ANELLO_COMM_NULL));
    }
    all_ = static_cast<unsigned char*>(region_);
  }
  reset();
}

void Memory::put() {
  if (device_ != nullptr) test::copy_to_device(device_, all_, size_);
}

void Memory::take() const {
  if (device_ != nullptr) test::copy_to_host(all_, device_, size_);
}

Memory::~Memory() {
  if (device_ != nullptr) test::device_free(device_);
  if (region_ == nullptr) return;
  const std::lock_guard held(spare().mutex);
  if (size_ <= kRegionBytes && spare().regions.size() < kMostSpare) {
    spare().regions.emplace_back(region_, kRegionBytes);
  } else {
    anello_mem_free(region_);
  }
}

}  // namespace anello::model
