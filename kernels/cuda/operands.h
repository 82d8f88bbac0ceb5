#pragma once
// The sources or destinations of a launch: a list that allocates nothing. It also counts operands that it cannot hold,
// so that a call with too many is refused.
#include "kernels/cuda/arguments.h"

#include <cstddef>
#include <initializer_list>

namespace anello::kernels::cuda {

template <class Pointer>
class Operands {
 public:
  Operands() = default;
  Operands(std::initializer_list<Pointer> pointers) {
    for (const Pointer pointer : pointers) push_back(pointer);
  }
  void push_back(Pointer pointer) {
    if (size_ < static_cast<std::size_t>(kMaxOperands)) held_[size_] = pointer;
    ++size_;
  }
  void clear() { size_ = 0; }
  std::size_t size() const { return size_; }
  // Requires: i < size(), and size() is at most kMaxOperands.
  Pointer& operator[](std::size_t i) { return held_[i]; }
  Pointer operator[](std::size_t i) const { return held_[i]; }

 private:
  Pointer held_[kMaxOperands] = {};
  std::size_t size_ = 0;
};

}  // namespace anello::kernels::cuda
