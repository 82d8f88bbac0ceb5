#pragma once
// Dynamic loss scaling: the largest factor on the loss that does not overflow keeps gradients of 16-bit floats away
// from zero. Every rank sees the same results, so all compute the same factor.
#include <algorithm>

namespace anello::gradient_sync {

class LossScaler {
 public:
  LossScaler() = default;  // no scaling: always 1
  LossScaler(double initial, int interval) : scale_(initial), interval_(interval) {}

  double scale() const { return scale_; }
  void step(bool overflow) {
    if (interval_ == 0) return;
    if (overflow) {
      scale_ = std::max(scale_ / 2, kLeast);
      clean_ = 0;
    } else if (++clean_ == interval_) {
      scale_ = std::min(scale_ * 2, kMost);
      clean_ = 0;
    }
  }

 private:
  static constexpr double kMost = 1 << 24, kLeast = 1.0 / (1 << 24);
  double scale_ = 1;
  int interval_ = 0;
  int clean_ = 0;
};

}  // namespace anello::gradient_sync
