#include "memory/region_mapping.h"

#include "base/error.h"
#include "base/text.h"
#include "memory/backing.h"

#include <cerrno>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace anello::memory {
namespace {

// Leaked: mappings may live up to the last static destructor.
struct Mapped {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<RegionMapping>> by_region;
};
Mapped& mapped() {
  static Mapped* const all = new Mapped;
  return *all;
}

// Checks a range that another process passed. Empty if the range can be touched from now on.
std::string why_not(const PassedRange& range) {
  const int seals = ::fcntl(range.file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return "it is not sealed against shrinking";
  struct stat about {};
  if (::fstat(range.file.get(), &about) != 0 || about.st_size < 0) return "its size is not known";
  if (range.bytes == 0 || range.bytes % kPage != 0 || range.offset % kPage != 0) return "it is not of whole pages";
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (range.bytes > size || range.offset > size - range.bytes) return "it ends beyond the file";
  // Touching a range without pages would make them here, as many as the peer likes.
  if (range.bytes / 512 > static_cast<std::uint64_t>(about.st_blocks)) return "it has no pages";
  return "";
}

}  // namespace

std::shared_ptr<RegionMapping> RegionMapping::find(std::uint64_t region) {
  Mapped& all = mapped();
  const std::lock_guard held(all.mutex);
  const auto found = all.by_region.find(region);
  return found == all.by_region.end() ? nullptr : found->second.lock();
}

std::shared_ptr<RegionMapping> RegionMapping::of(std::uint64_t region, PassedRange range) {
  if (auto known = find(region)) return known;
  if (const std::string why = why_not(range); !why.empty()) {
    throw Error(ANELLO_ERR_CORRUPT, text("the memory that was passed cannot be mapped: ", why));
  }
  std::shared_ptr<RegionMapping> mapping(new RegionMapping);
  mapping->region_ = region;
  mapping->bytes_ = static_cast<std::size_t>(range.bytes);
  mapping->data_ = map_pages(range.file.get(), range.offset, mapping->bytes_);
  if (mapping->data_ == nullptr) {
    throw Error(ANELLO_ERR_RESOURCE, text("mapping ", mapping->bytes_, " bytes: ", system_text("mmap", errno)));
  }
  ::madvise(mapping->data_, mapping->bytes_, MADV_DONTFORK);
  populate(mapping->data_, mapping->bytes_);
  Mapped& all = mapped();
  const std::lock_guard held(all.mutex);
  std::weak_ptr<RegionMapping>& slot = all.by_region[region];
  if (auto other = slot.lock()) return other;  // another thread was first; drop this one
  slot = mapping;
  return mapping;
}

RegionMapping::~RegionMapping() {
  // A forked child never had the mapping, and something else may be at its address by now.
  if (data_ == nullptr || in_forked_child()) return;
  Mapped& all = mapped();
  const std::lock_guard held(all.mutex);
  const auto found = all.by_region.find(region_);
  if (found != all.by_region.end() && found->second.expired()) all.by_region.erase(found);
  ::munmap(data_, bytes_);
}

}  // namespace anello::memory
