#pragma once
// Copies a payload to where another processor will load it, in the way that suits where the two stand just now. Where
// they share a cache, an ordinary copy leaves the bytes where the reader finds them soonest. Where they do not (and a
// virtual machine moves its processors between the two cases from second to second), every line of an ordinary copy is
// first fetched from the reader's cache, and then by the reader from this one's: 10 to 20 times slower than past the
// caches, through memory. So the ordinary way is timed now and then, and given up for a while when it is slow.
#include <cstddef>
#include <cstdint>

namespace anello::memory {

// The other side: copies what another processor has stored, whose caches may hold it; several pages at a time where
// that pays.
void copy_stored_elsewhere(std::byte* to, const std::byte* from, std::size_t bytes);
// The same where the other one stores what comes behind it meanwhile, so that it pays sooner.
void copy_while_stored(std::byte* to, const std::byte* from, std::size_t bytes);

// Of so much in all that no cache will hold it until it is loaded: stores do not fetch what they replace.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes);
// From so many bytes of all ranks' results on a host.
inline constexpr std::size_t kPastCaches = 48 * 1024 * 1024;

class PieceCopy {
 public:
  // Whether the next one goes past the caches: ordinary stores were slow lately.
  bool streams() const { return streamed_left_ > 0; }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  void copy_piece(std::byte* to, const std::byte* from, std::size_t bytes);
  int streamed_left_ = 0;  // pieces to copy past the caches before the ordinary way is tried again
  unsigned pieces_ = 0;
};

}  // namespace anello::memory
