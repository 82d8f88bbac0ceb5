#include "device/handover.h"

#include "base/unique_fd.h"
#include "device/waiting_streams.h"

#include <cstddef>
#include <mutex>
#include <vector>

namespace anello::device {

// On a line of its own.
struct alignas(64) Handover::Words {
  std::uint32_t come;
  std::uint32_t release;
  std::uint32_t passed;
};

namespace {

// Pairs of words that nobody uses. Their pages are pinned for all devices, and stay.
struct Spare {
  std::mutex mutex;
  std::vector<Handover::Words*> words;
};

Spare& spare() {
  static Spare& all = *new Spare;
  return all;
}

Handover::Words* take_words(const kernels::cuda::Driver& driver) {
  constexpr std::size_t kPage = 4096;
  Spare& all = spare();
  const std::lock_guard lock(all.mutex);
  if (all.words.empty()) {
    void* page = nullptr;
    check(driver, "cuMemHostAlloc", driver.allocate_pinned(&page, kPage, kernels::cuda::kPortable));
    auto* const words = static_cast<Handover::Words*>(page);
    for (std::size_t i = 0; i < kPage / sizeof *words; ++i) all.words.push_back(words + i);
  }
  Handover::Words* const taken = all.words.back();
  all.words.pop_back();
  *taken = {};
  return taken;
}

Handover::Words* words_for(Device& device) {
  const Device::Use use(device);
  return take_words(device.driver());
}

}  // namespace

Handover::Handover(Device& device, Use use)
    : device_(device),
      in_graph_(use == Use::in_graph),
      words_(words_for(device)),
      come_(&words_->come),
      release_(&words_->release),
      passed_(&words_->passed) {
  const Device::Use current(device);
  check(device.driver(), "cuMemHostGetDevicePointer", device.driver().device_address(&words_there_, words_, 0));
  WaitingStreams::add(*this);
}

Handover::~Handover() {
  if (in_forked_child()) return;
  WaitingStreams::remove(*this);
  if (has_passed()) {
    const std::lock_guard lock(spare().mutex);
    spare().words.push_back(words_);
  } else {
    // The words stay the stream's.
    __atomic_store_n(release_, in_graph_ ? 1 : enqueued_, __ATOMIC_RELEASE);
  }
}

std::uint64_t Handover::there(const std::uint32_t* word) const {
  return words_there_ + std::uint64_t(reinterpret_cast<const std::byte*>(word) - reinterpret_cast<std::byte*>(words_));
}

void Handover::write(void* stream, const std::uint32_t* word, std::uint32_t value) const {
  const Device::Use use(device_);
  check(device_.driver(), "cuStreamWriteValue32", device_.driver().write_value(stream, there(word), value, 0));
}

void Handover::enqueue_come(void* stream) {
  write(stream, come_, in_graph_ ? 1 : enqueued_ + 1);
  if (!in_graph_) ++enqueued_;
}

void Handover::enqueue_wait(void* stream) {
  const Device::Use use(device_);
  const std::uint32_t wanted = in_graph_ ? 1 : enqueued_;
  check(device_.driver(), "cuStreamWaitValue32",
        device_.driver().wait_for_value(stream, there(release_), wanted, kernels::cuda::kWaitReached));
}

void Handover::enqueue_passed(void* stream) {
  in_graph_ ? write(stream, release_, 0) : write(stream, passed_, enqueued_);
}

Device& device_of_stream(void* stream) {
  const kernels::cuda::Driver& driver = kernels::cuda::driver();
  int number = 0;
  if (stream == nullptr) {
    if (driver.context_device(&number) != 0) number = 0;  // this thread has used no device yet
    return Device::of(number);
  }
  void* context = nullptr;
  check(driver, "cuStreamGetCtx", driver.stream_context(stream, &context));
  check(driver, "cuCtxPushCurrent", driver.push_context(context));
  const int code = driver.context_device(&number);
  driver.pop_context(&context);
  check(driver, "cuCtxGetDevice", code);
  return Device::of(number);
}

bool is_capturing(void* stream) {
  const kernels::cuda::Driver& driver = kernels::cuda::driver();
  int status = 0;
  check(driver, "cuStreamIsCapturing", driver.capture_status(stream, &status));
  return status != 0;
}

}  // namespace anello::device
