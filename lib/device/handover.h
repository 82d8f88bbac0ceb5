#pragma once
// How a caller's stream and a rank wait for each other, call after call: by words of pinned host memory, which the
// stream writes and waits for by itself. No function of the host runs in the stream, and no kernel spins.
//
//   the stream, for its call n                 the rank
//   writes n to `come`
//                                              sees it, and runs the call
//   waits until `release` has reached n
//                                              writes n to `release`
//   writes n to `passed`
//
// A rank that goes away lets a stream pass all its calls, also those that it has not come to.
//
// A graph replays its part, so that its words hold no numbers: the stream writes 1 to `come`, which the rank takes
// back, waits for a 1 in `release`, and takes that back at the end.
#include "device/device.h"

#include <cstdint>

namespace anello::device {

class Handover {
 public:
  enum class Use { in_stream, in_graph };
  Handover(Device& device, Use use);  // throws Error
  // Lets the stream pass.
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Enqueue, in this order. They may wait for the stream, which may wait for the rank: not under the rank's lock. Throw
  // Error.
  void enqueue_come(void* stream);
  void enqueue_wait(void* stream);
  void enqueue_passed(void* stream);

  bool is_of_graph() const { return in_graph_; }
  // Whether the stream has come to a call that the rank has not taken.
  bool has_come() const { return static_cast<std::int32_t>(__atomic_load_n(come_, __ATOMIC_ACQUIRE) - taken_) > 0; }
  void take() {
    if (in_graph_) {
      __atomic_store_n(come_, 0, __ATOMIC_RELAXED);
    } else {
      ++taken_;
    }
  }
  // The call that was taken last has run.
  void release() { __atomic_store_n(release_, in_graph_ ? 1 : taken_, __ATOMIC_RELEASE); }
  // Whether the stream has nothing left to do here. Not while something is being enqueued.
  bool has_passed() const {
    return in_graph_ ? __atomic_load_n(come_, __ATOMIC_ACQUIRE) == 0 && __atomic_load_n(release_, __ATOMIC_ACQUIRE) == 0
                     : __atomic_load_n(passed_, __ATOMIC_ACQUIRE) == enqueued_;
  }

  struct Words;

 private:
  std::uint64_t there(const std::uint32_t* word) const;
  void write(void* stream, const std::uint32_t* word, std::uint32_t value) const;

  Device& device_;
  const bool in_graph_;
  Words* const words_;
  std::uint32_t* const come_;
  std::uint32_t* const release_;
  std::uint32_t* const passed_;
  std::uint64_t words_there_ = 0;  // where the device finds them
  std::uint32_t enqueued_ = 0;     // calls that the stream comes to
  std::uint32_t taken_ = 0;
};

// The device of a stream; of the null stream, that of the calling thread's context. Throws Error.
Device& device_of_stream(void* stream);
// Whether what is enqueued goes into a graph. Throws Error.
bool is_capturing(void* stream);

}  // namespace anello::device
