#include "memory/workspace.h"

#include "base/error.h"
#include "memory/region.h"

#include <utility>

namespace anello::memory {

void Workspace::provide(std::size_t bytes, bool in_region) {
  if (bytes <= size() && (!in_region || region_ != nullptr || has_no_region_)) return;
  free();
  if (in_region) {
    try {
      region_ = make_region(bytes);
      region_bytes_ = bytes;
      return;
    } catch (const Error&) {
      has_no_region_ = true;  // adapters do not reach plain memory, and messages are copied
    }
  }
  plain_.resize(bytes);
}

void Workspace::free() {
  has_no_region_ = false;
  std::vector<std::byte>().swap(plain_);
  if (region_ != nullptr) free_region(std::exchange(region_, nullptr));
}

}  // namespace anello::memory
