#pragma once
// What tests of calls in streams share.
#include "on_device.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace anello::test {

using Clock = std::chrono::steady_clock;

class Stream {
 public:
  Stream() : stream_(make_stream()) {}
  ~Stream() { destroy_stream(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator void*() const { return stream_; }
  void wait() const { wait_for_stream(stream_); }

 private:
  void* stream_;
};

inline void reaches(const Rank& me, const std::atomic<int>& count, int wanted) {
  const auto begin = Clock::now();
  while (count < wanted) {
    if (Clock::now() - begin > std::chrono::seconds(20)) return me.report.wrong("rank ", me.rank, " waited in vain");
    std::this_thread::yield();
  }
}

inline void is(const Rank& me, float got, float expected, const char* what) {
  if (got != expected) me.report.wrong("rank ", me.rank, ", ", what, ": ", got, ", not ", expected);
}

// Whether the stream has come by, which a stream that waits for ever does not.
inline bool passes(void* stream) {
  const auto begin = Clock::now();
  while (!is_idle(stream)) {
    if (Clock::now() - begin > std::chrono::seconds(10)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Healed {
  ~Healed() {
    hold_device(false);
    for (const char* const call :
         {"cuStreamWaitValue32_v2", "cuStreamWriteValue32_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpy2DAsync_v2"})
      fail_device_call(call, 0);
  }
};

}  // namespace anello::test
