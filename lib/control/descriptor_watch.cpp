#include "control/descriptor_watch.h"

#include "base/log.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>

namespace anello::control {

void DescriptorWatch::watch(int descriptor, std::function<void()> readable) {
  std::shared_ptr<UniqueFd> fresh;
  {
    const std::lock_guard lock(mutex_);
    if (descriptor != number_) {
      // A copy, because the caller may close its descriptor at any time after unwatch.
      fresh = std::make_shared<UniqueFd>(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
      if (!*fresh) {
        log::warn(-1, "operations go on only while somebody waits: ", system_text("fcntl(F_DUPFD_CLOEXEC)", errno));
        return;
      }
      number_ = descriptor;
    }
    readable_ = std::move(readable);
  }
  service_.post([self = shared_from_this(), fresh] { self->start(fresh); });
}

void DescriptorWatch::start(std::shared_ptr<UniqueFd> fresh) {
  if (fresh) {
    if (stream_) stream_->close();
    stream_ = std::make_shared<Stream>(service_.io(), std::move(*fresh));
    waiting_ = false;
  }
  if (waiting_ || !stream_ || !stream_->open()) return;
  waiting_ = true;
  service_.spawn("descriptor watch", wait(shared_from_this()));
}

Task<> DescriptorWatch::wait(std::shared_ptr<DescriptorWatch> self) {
  const std::shared_ptr<Stream> stream = self->stream_;
  co_await stream->readable();
  if (self->stream_ != stream) co_return;
  self->waiting_ = false;
  self->call();
}

void DescriptorWatch::call() {
  std::function<void()> readable;
  {
    const std::lock_guard lock(mutex_);
    readable = std::exchange(readable_, nullptr);
    if (!readable) return;
    calling_ = true;
  }
  // In every case: a thread may be waiting for this in unwatch().
  struct Called {
    DescriptorWatch& watch;
    ~Called() {
      {
        const std::lock_guard lock(watch.mutex_);
        watch.calling_ = false;
      }
      watch.called_.notify_all();
    }
  } const called{*this};
  readable();
}

void DescriptorWatch::unwatch() {
  std::unique_lock lock(mutex_);
  readable_ = nullptr;
  number_ = -1;  // the caller may close its descriptor now, and the number may be reused
  called_.wait(lock, [this] { return !calling_; });
  service_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
}

void DescriptorWatch::close() {
  {
    const std::lock_guard lock(mutex_);
    if (number_ >= 0) return;  // watched again meanwhile
  }
  if (stream_) stream_->close();
  stream_.reset();
  waiting_ = false;
}

}  // namespace anello::control
