#pragma once
// A stream of the fake CUDA device: what is put in is done in order by a thread of its own, or kept for a graph while
// one is being captured.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace anello::testing {

using FakeWork = std::function<void()>;
struct FakeContext;

// Which way a copy goes, if an engine does it.
enum class FakeCopy { none, to_host, to_device };

// A context's copy engine: it does copies in the order in which they were enqueued, of whatever stream. So a copy that
// its stream holds back holds up all later ones.
struct FakeEngine {
  std::atomic<std::uint64_t> enqueued{0}, done{0};

  FakeWork next(FakeWork copy) {
    return [this, turn = enqueued++, copy = std::move(copy)] {
      while (done < turn) std::this_thread::sleep_for(std::chrono::microseconds(20));
      copy();
      ++done;
    };
  }
};

class FakeStream {
 public:
  // with_default: its work waits for what was put into the device's default stream before, and the other way round.
  enum class Order { with_default, alone };
  FakeStream(FakeContext& context, Order order) : context_(context), order_(order), worker_([this] { work(); }) {}
  ~FakeStream() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  // As on a device, the caller waits while the queue is full. engine: does the work, unless it is for a graph.
  void put(FakeWork work, FakeEngine* engine = nullptr) {
    constexpr std::size_t kMostQueued = 1000;
    std::unique_lock lock(mutex_);
    if (capturing_) {
      captured_.push_back(std::move(work));
      return;
    }
    changed_.wait(lock, [this] { return queue_.size() < kMostQueued; });
    queue_.push_back(engine != nullptr ? engine->next(std::move(work)) : std::move(work));
    ++put_;
    changed_.notify_all();
  }
  FakeContext& context() const { return context_; }
  Order order() const { return order_; }
  // The work, behind what is in this stream now.
  FakeWork after(FakeWork work) {
    const std::lock_guard lock(mutex_);
    if (capturing_ || *done_ == put_) return work;
    return [done = done_, until = put_, then = std::move(work)] {
      while (*done < until) std::this_thread::sleep_for(std::chrono::microseconds(20));
      then();
    };
  }
  // While held, no stream does anything.
  static std::atomic<bool>& is_held() {
    static std::atomic<bool> held{false};
    return held;
  }
  bool is_ending() const { return ending_; }
  bool is_capturing() {
    const std::lock_guard lock(mutex_);
    return capturing_;
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }
  // Work that holds up what is behind it until the value is there, or the stream is destroyed.
  FakeWork wait_for(const std::uint32_t* value, std::uint32_t wanted, bool equal) {
    return [this, value, wanted, equal] {
      const auto is_there = [&] {
        const std::uint32_t now = __atomic_load_n(value, __ATOMIC_ACQUIRE);
        return equal ? now == wanted : static_cast<std::int32_t>(now - wanted) >= 0;
      };
      while (!is_there() && !ending_) std::this_thread::sleep_for(std::chrono::microseconds(20));
    };
  }
  void begin_capture() {
    const std::lock_guard lock(mutex_);
    capturing_ = true;
  }
  std::vector<FakeWork> end_capture() {
    const std::lock_guard lock(mutex_);
    capturing_ = false;
    return std::exchange(captured_, {});
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const FakeWork next = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      changed_.notify_all();
      lock.unlock();
      while (is_held() && !ending_) std::this_thread::sleep_for(std::chrono::microseconds(100));
      next();
      lock.lock();
      busy_ = false;
      ++*done_;
      changed_.notify_all();
    }
  }

  FakeContext& context_;
  const Order order_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FakeWork> queue_;
  std::vector<FakeWork> captured_;
  bool busy_ = false, capturing_ = false;
  std::uint64_t put_ = 0;
  const std::shared_ptr<std::atomic<std::uint64_t>> done_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::atomic<bool> ending_{false};
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace anello::testing
