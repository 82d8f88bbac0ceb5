#pragma once
// How a caller's stream and a rank wait for each other, call after call: by two words of pinned host memory, which the
// stream writes and waits for by itself. No function of the host runs in the stream, and no kernel spins.
//
//   the stream, for each call                  the rank
//   copies what the call reads
//   withdraws `release`, writes `ready`
//                                              sees it, takes it back, runs the call
//   waits for `release`
//                                              writes `release`
//   copies what the call has written
//
// The words hold no numbers of calls, so that a graph may replay the stream's part.
#include "device/device.h"

#include <cstdint>

namespace anello::device {

class Handover {
 public:
  explicit Handover(Device& device);  // throws Error
  // Releases the stream. Nothing of the stream's part may be left to run.
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Enqueue. Throw Error.
  void enqueue_ready(void* stream);
  void enqueue_wait(void* stream);

  bool is_ready() const { return __atomic_load_n(ready_, __ATOMIC_ACQUIRE) != 0; }
  // While the stream waits.
  void take() { __atomic_store_n(ready_, 0, __ATOMIC_RELAXED); }
  void release() { __atomic_store_n(release_, 1, __ATOMIC_RELEASE); }

  struct Words;

 private:
  void write(void* stream, std::uint32_t* word, std::uint32_t value);

  Device& device_;
  Words* const words_;
  std::uint32_t* const ready_;
  std::uint32_t* const release_;
};

// The device of a stream; of the null stream, that of the calling thread's context. Throws Error.
Device& device_of_stream(void* stream);
// Whether what is enqueued goes into a graph. Throws Error.
bool is_capturing(void* stream);

}  // namespace anello::device
