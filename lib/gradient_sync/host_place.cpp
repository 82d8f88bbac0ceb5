#include "gradient_sync/host_place.h"

#include "gradient_sync/collective.h"
#include "gradient_sync/element_copy.h"

#include <cstring>

namespace anello::gradient_sync {

Memory HostPlace::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  gradient_sync::check(ANELLO_COMM_NULL, anello_mem_alloc(bytes, &memory), "memory for a bucket");
  return {static_cast<std::byte*>(memory), [](std::byte* at) { anello_mem_free(at); }};
}

void HostPlace::move(const Move& it, Stream) {
  if (it.residual != nullptr) {
    round_with_feedback(static_cast<const float*>(it.from), it.residual, it.to, it.to_type, it.count, it.factor);
  } else if (!copy_elements(it.from, it.from_type, it.to, it.to_type, it.count, it.factor, it.check)) {
    found_.store(true, std::memory_order_relaxed);
  }
}

void HostPlace::zero(void* at, std::size_t bytes, Stream) {
  if (bytes > 0) std::memset(at, 0, bytes);
}

void HostPlace::copy(void* to, const void* from, std::size_t bytes, Stream) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace anello::gradient_sync
