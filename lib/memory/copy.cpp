#include "memory/copy.h"

#include "base/clock.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace anello::memory {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;

#if defined(__SSE2__)

// Below this size an ordinary copy costs too little to matter, and streaming stores cost too much.
constexpr std::size_t kWorthwhile = 4096;
constexpr unsigned kTimed = 4;  // one ordinary piece in kTimed is timed
// Bytes per ns. Shared caches and memory give 6 to 15; caches that contend for lines give 0.3 to 2, or 3 to 10 where
// their lines are claimed in time; past the caches both sides together reach 9.
constexpr std::int64_t kSlow = 2;
constexpr int kStreamedPieces = 128;

#endif

// Up to this size memcpy's string instructions are as fast or faster.
constexpr std::size_t kLeastByPages = 32 * 1024;
// A processor prefetches only within a page, but in several pages at once: this keeps more far lines in flight.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 4;

#if defined(__SSE2__)

template <bool streams>
[[gnu::always_inline]] inline void copy_line(std::byte* to, const std::byte* from) {
  const auto* in = reinterpret_cast<const __m128i*>(from);
  auto* out = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
  const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
  const auto store = [](__m128i* at, __m128i value) {
    if constexpr (streams) {
      _mm_stream_si128(at, value);
    } else {
      _mm_storeu_si128(at, value);
    }
  };
  store(out, a);
  store(out + 1, b);
  store(out + 2, c);
  store(out + 3, d);
}

// Copies lines of kPages pages in turn while that many pages are left. Returns the number of bytes copied.
template <bool streams>
std::size_t copy_pages(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
  for (; done + kPages * kPage <= bytes; done += kPages * kPage)
    for (std::size_t i = done; i < done + kPage; i += 64)
      for (std::size_t page = 0; page < kPages; ++page)
        copy_line<streams>(to + i + page * kPage, from + i + page * kPage);
  return done;
}

bool may_stream(const std::byte* to) { return reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0; }

// Requires: may_stream(to).
void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t done = copy_pages<true>(to, from, bytes);
  for (; done + 64 <= bytes; done += 64) copy_line<true>(to + done, from + done);
  std::memcpy(to + done, from + done, bytes - done);
  // Streaming stores are not ordered by the release store that will announce them.
  _mm_sfence();
}

#endif

}  // namespace

void copy_stored_elsewhere(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > kLeastByPages) return copy_while_stored(to, from, bytes);
  std::memcpy(to, from, bytes);
}

void copy_while_stored(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
#if defined(__SSE2__)
  done = copy_pages<false>(to, from, bytes);
#endif
  std::memcpy(to + done, from + done, bytes - done);
}

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  if (may_stream(to)) return stream(to, from, bytes);
#endif
  std::memcpy(to, from, bytes);
}

void PieceCopy::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (; bytes > kPieceBytes; to += kPieceBytes, from += kPieceBytes, bytes -= kPieceBytes)
    copy_piece(to, from, kPieceBytes);
  copy_piece(to, from, bytes);
}

void PieceCopy::copy_piece(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  if (bytes >= kWorthwhile && may_stream(to)) {
    if (streamed_left_ > 0) {
      --streamed_left_;
      stream(to, from, bytes);
      return;
    }
    if (pieces_++ % kTimed == 0) {
      const std::int64_t before = now_ns();
      std::memcpy(to, from, bytes);
      if ((now_ns() - before) * kSlow > static_cast<std::int64_t>(bytes)) {
        streamed_left_ = kStreamedPieces;
        pieces_ = 0;
      }
      return;
    }
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace anello::memory
