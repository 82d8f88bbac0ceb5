#include "device/handover.h"

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace anello::device {

// On a line of its own.
struct alignas(64) Handover::Words {
  std::uint32_t ready;
  std::uint32_t release;
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

Handover::Handover(Device& device)
    : device_(device), words_(words_for(device)), ready_(&words_->ready), release_(&words_->release) {}

Handover::~Handover() {
  release();
  const std::lock_guard lock(spare().mutex);
  spare().words.push_back(words_);
}

void Handover::write(void* stream, std::uint32_t* word, std::uint32_t value) {
  const kernels::cuda::Driver& driver = device_.driver();
  std::uint64_t there = 0;
  check(driver, "cuMemHostGetDevicePointer", driver.device_address(&there, word, 0));
  check(driver, "cuStreamWriteValue32", driver.write_value(stream, there, value, 0));
}

void Handover::enqueue_ready(void* stream) {
  const Device::Use use(device_);
  write(stream, release_, 0);
  write(stream, ready_, 1);
}

void Handover::enqueue_wait(void* stream) {
  const Device::Use use(device_);
  const kernels::cuda::Driver& driver = device_.driver();
  std::uint64_t there = 0;
  check(driver, "cuMemHostGetDevicePointer", driver.device_address(&there, release_, 0));
  check(driver, "cuStreamWaitValue32", driver.wait_for_value(stream, there, 1, kernels::cuda::kWaitEqual));
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
