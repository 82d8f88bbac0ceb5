#pragma once
// Copies a payload to where another processor will load it, in the way that suits the two processors' current places.
// Where they share a cache, an ordinary copy leaves the bytes where the reader finds them soonest. Where they share
// none (a virtual machine moves its processors between the two cases from second to second), every line of an ordinary
// copy is first fetched from the reader's cache, and then by the reader from this one's: 10 to 20 times slower than
// past the caches, through memory. So ordinary copies are timed now and then, and given up for a while when they are
// slow.
#include <cstddef>
#include <cstdint>

namespace anello::memory {

// The reader's side: copies bytes that another processor has stored and may hold in its caches, several pages at a time
// where that pays.
void copy_stored_elsewhere(std::byte* to, const std::byte* from, std::size_t bytes);
// Does this while the other processor still stores the bytes that follow, so that several pages pay sooner.
void copy_while_stored(std::byte* to, const std::byte* from, std::size_t bytes);

// Copies payloads too large for any cache to hold until they are loaded: its stores do not fetch the lines they
// replace.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes);
// Results go past the caches when all ranks of a host together have at least this many bytes of them.
inline constexpr std::size_t kPastCaches = 48 * 1024 * 1024;

class PieceCopy {
 public:
  // Whether the next piece goes past the caches, because ordinary stores were slow lately.
  bool streams() const { return streamed_left_ > 0; }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  void copy_piece(std::byte* to, const std::byte* from, std::size_t bytes);
  int streamed_left_ = 0;  // pieces to copy past the caches before the ordinary way is tried again
  unsigned pieces_ = 0;
};

}  // namespace anello::memory
