#pragma once
// Implements Job::watch and unwatch: a callback on the service thread, once, when a descriptor is readable. Any thread
// may call watch and unwatch; the callback may also call watch.
#include "base/error.h"
#include "base/unique_fd.h"
#include "control/stream.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace anello::control {

class DescriptorWatch : public std::enable_shared_from_this<DescriptorWatch> {
 public:
  explicit DescriptorWatch(Service& service) : service_(service) {}

  void watch(int descriptor, std::function<void()> readable);
  void unwatch();
  void close();  // service thread

 private:
  static Task<> wait(std::shared_ptr<DescriptorWatch> self);
  void start(std::shared_ptr<UniqueFd> fresh);
  void call();

  Service& service_;
  std::mutex mutex_;
  std::condition_variable called_;
  std::function<void()> readable_;
  int number_ = -1;  // of the caller's descriptor, of which stream_ has a copy
  bool calling_ = false;

  std::shared_ptr<Stream> stream_;  // service thread only, like the next
  bool waiting_ = false;
};

}  // namespace anello::control
