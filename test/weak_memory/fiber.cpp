#include "weak_memory/fiber.h"

#include <cstdint>
#include <utility>

namespace anello::weak_memory {

Fiber::Fiber() : stack_(std::make_unique_for_overwrite<char[]>(kStack)) {}

void Fiber::set(std::function<void()> body) {
  body_ = std::move(body);
  has_begun_ = has_ended_ = false;
}

// makecontext passes ints only.
void Fiber::start(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(std::uintptr_t(high) << 32 | low);
  self->body_();
  self->has_ended_ = true;
  _longjmp(self->outside_, 1);
}

// swapcontext starts the stack; from then on _setjmp switches, which costs no system call.
bool Fiber::resume() {
  if (has_ended_) return false;
  if (_setjmp(outside_) == 0) {
    if (has_begun_) _longjmp(inside_, 1);
    has_begun_ = true;
    getcontext(&started_);
    started_.uc_stack.ss_sp = stack_.get();
    started_.uc_stack.ss_size = kStack;
    started_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&started_, reinterpret_cast<void (*)()>(&Fiber::start), 2, unsigned(self >> 32), unsigned(self));
    swapcontext(&from_, &started_);
  }
  return !has_ended_;
}

void Fiber::pause() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

}  // namespace anello::weak_memory
