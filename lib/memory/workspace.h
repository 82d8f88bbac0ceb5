#pragma once
// Memory of the library's own for parts of results, which grows as needed and does not shrink by itself. It lies in a
// region (region.h) if adapters of other hosts are to reach it.
#include <cstddef>
#include <vector>

namespace anello::memory {

class Workspace {
 public:
  Workspace() = default;
  ~Workspace() { free(); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::byte* data() { return region_ != nullptr ? region_ : plain_.data(); }
  std::size_t size() const { return region_ != nullptr ? region_bytes_ : plain_.size(); }
  bool is_region() const { return region_ != nullptr; }
  // At least so many bytes, whose contents are undefined. in_region: if there can be a region. Throws std::bad_alloc.
  void provide(std::size_t bytes, bool in_region);
  void free();

 private:
  std::vector<std::byte> plain_;
  std::byte* region_ = nullptr;
  std::size_t region_bytes_ = 0;
  bool has_no_region_ = false;  // plain_ stands for one that could not be made
};

}  // namespace anello::memory
