#pragma once
// Whether the memory of other ranks is near: read where it lies as soon as it can be staged. Where two processors share no cache
// (and a virtual machine's may change from second to second) a line that its owner has written comes slowly, and slowly it
// goes back to be written anew, of which the call does not see anything. Who writes a buffer before each call is then better off
// with a copy past the caches, and who never does is not: what a rank has read before lies in its own. So reading is timed now
// and then, and given up for a while where it is slow.
#include <cstddef>
#include <cstdint>

namespace anello::executor {

// Of one communicator's calls of one kind. Ranks make the same calls, so that they look again at the same ones.
class Nearness {
 public:
  enum class Wish : std::uint8_t { by_time, never, always };  // to stage

  // A call begins over buffers of so many bytes that lie where all ranks could reach them. Whether to stage it in spite of that.
  bool stages(std::size_t bytes, int ranks, Wish wish) {
    // Who has read nothing, as a broadcast's root, hears of it from those that have.
    if (timed_) is_far_ = is_far(bytes_, ns_);
    ns_ = bytes_ = 0;
    timed_ = false;
    if (!concerns(bytes, ranks == 2)) return false;
    if (wish != Wish::by_time) return wish == Wish::always;
    ++calls_;
    // Lines that nobody has rewritten come slowly the first time, since the other way has left them alone.
    const std::uint32_t left = calls_ % kAgain;
    if (is_far_ && left != kAgain - 1 && left != 0) return true;
    timed_ = calls_ % kTimed == 0;
    return false;
  }
  // Whether anything of such a size is staged for this; alone: nobody else is read, nor shares the processor.
  static bool concerns(std::size_t bytes, bool alone) { return bytes >= kLeast && bytes <= (alone ? kMostOfTwo : kMost); }
  // Whether bytes that took so long came from afar.
  static bool is_far(std::int64_t bytes, std::int64_t ns) { return bytes < kNear * ns; }
  // How many go the other way before it is looked at again.
  static constexpr std::uint32_t kAgain = 64;

  // Whether what the call reads is to be timed.
  bool is_timed() const { return timed_; }
  void took(std::size_t bytes, std::int64_t ns) {
    bytes_ += static_cast<std::int64_t>(bytes);
    ns_ += ns;
  }
  // Another rank has staged what this one would have read.
  void hear() { is_far_ = true; }

 private:
  // Bytes per ns. What lies in the own caches or those that are shared comes with 25 to 50, of another processor's 6 to 14.
  static constexpr std::int64_t kNear = 16;
  static constexpr std::uint32_t kTimed = 16;  // one call in so many
  static_assert(kAgain % kTimed == 0);
  // Smaller ones go through the lines' own slots or take too little time; larger ones do not stay in the caches. Where more ranks
  // than two are read from, some share the processor.
  static constexpr std::size_t kLeast = 16 * 1024;
  static constexpr std::size_t kMostOfTwo = 1024 * 1024;
  static constexpr std::size_t kMost = 64 * 1024;

  std::uint32_t calls_ = 0;
  bool is_far_ = false;
  bool timed_ = false;
  std::int64_t bytes_ = 0;  // what was timed of the last call
  std::int64_t ns_ = 0;
};

}  // namespace anello::executor
