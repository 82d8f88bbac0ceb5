#pragma once
// Host memory as the place of gradients.
#include "gradient_sync/place.h"

#include <atomic>

namespace anello::gradient_sync {

class HostPlace : public Place {
 public:
  // The ranks of the host map it.
  Memory allocate(std::size_t bytes) override;
  void check(const void* /*address*/, std::size_t /*bytes*/, const std::string& /*what*/) override {}
  void move(const Move& move, Stream stream) override;
  void zero(void* at, std::size_t bytes, Stream stream) override;
  void copy(void* to, const void* from, std::size_t bytes, Stream stream) override;
  bool found() override { return found_.exchange(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool> found_{false};
};

}  // namespace anello::gradient_sync
