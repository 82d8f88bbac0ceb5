#pragma once
// Calls of one size that follow each other. Where those of another size were found far they may be of memory that is
// not, so that they are looked at after a few of them, before the pause is over; after twice as many each time that
// they are far as well.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace anello::executor {

class SizeRun {
 public:
  // One of so many bytes begins: whether it is the one to look at.
  bool is_due(std::size_t bytes) {
    run_ = bytes == bytes_ ? run_ + 1 : 1;
    bytes_ = bytes;
    return run_ == due_ && bytes != far_bytes_;
  }
  // They are looked at for this.
  void looked_at() { looked_at_ = true; }
  void found_far(std::size_t bytes) {
    if (std::exchange(looked_at_, false)) due_ = std::min(2 * due_, kMost);
    far_bytes_ = bytes;
  }
  void found_near() {
    looked_at_ = false;
    due_ = kFirst;
  }

  static constexpr std::uint32_t kFirst = 8;
  static constexpr std::uint32_t kMost = 1024;

 private:
  std::size_t bytes_ = 0;
  std::size_t far_bytes_ = 0;
  std::uint32_t run_ = 0;
  std::uint32_t due_ = kFirst;
  bool looked_at_ = false;
};

}  // namespace anello::executor
