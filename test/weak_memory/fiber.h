#pragma once
// A thread of an explored program: a stack of its own, in which the program's real code runs until its next atomic
// operation. An execution that is cut short leaves its fibers where they stand, so no object that owns anything may
// live on their stacks.
#include <csetjmp>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace anello::weak_memory {

class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // What the next resume starts.
  void set(std::function<void()> body);
  // Runs until the body pauses or ends. Returns false once it has ended.
  bool resume();
  // Called within the body.
  void pause();

 private:
  static constexpr std::size_t kStack = 256 * 1024;
  static void start(unsigned high, unsigned low);

  std::unique_ptr<char[]> stack_;
  std::function<void()> body_;
  ucontext_t started_{}, from_{};
  std::jmp_buf inside_, outside_;
  bool has_begun_ = false;
  bool has_ended_ = true;
};

}  // namespace anello::weak_memory
