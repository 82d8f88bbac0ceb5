#include "transports/piece_copy.h"

#include "base/clock.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace anello::transport {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;

#if defined(__SSE2__)

// Below, an ordinary copy costs too little to matter, and streaming stores too much.
constexpr std::size_t kWorthwhile = 4096;
constexpr unsigned kTimed = 4;  // one ordinary piece in so many is timed
// Bytes per ns. Shared caches and memory give 6 to 15, caches that fight over lines 0.3 to 2, and 3 to 10 where what is claimed of them
// comes in time; past the caches both sides together have 9.
constexpr std::int64_t kSlow = 2;
constexpr int kStreamedPieces = 128;

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + 64 <= bytes; i += 64) {
    const auto* in = reinterpret_cast<const __m128i*>(from + i);
    auto* out = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  std::memcpy(to + i, from + i, bytes - i);
  // Streaming stores are not ordered by the release store that will announce them.
  _mm_sfence();
}

#endif

// Up to this the string instructions that memcpy takes are as fast or faster.
constexpr std::size_t kLeastByPages = 32 * 1024;
// A processor fetches ahead within a page only, but in several at once: so more far lines are under way.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 4;

#if defined(__SSE2__)

[[gnu::always_inline]] inline void copy_line(std::byte* to, const std::byte* from) {
  const auto* in = reinterpret_cast<const __m128i*>(from);
  auto* out = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
  const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
  _mm_storeu_si128(out, a);
  _mm_storeu_si128(out + 1, b);
  _mm_storeu_si128(out + 2, c);
  _mm_storeu_si128(out + 3, d);
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
  for (; done + kPages * kPage <= bytes; done += kPages * kPage)
    for (std::size_t i = done; i < done + kPage; i += 64)
      for (std::size_t page = 0; page < kPages; ++page) copy_line(to + i + page * kPage, from + i + page * kPage);
#endif
  std::memcpy(to + done, from + done, bytes - done);
}

void PieceCopy::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (; bytes > kPieceBytes; to += kPieceBytes, from += kPieceBytes, bytes -= kPieceBytes) copy_piece(to, from, kPieceBytes);
  copy_piece(to, from, bytes);
}

void PieceCopy::copy_piece(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const bool aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  if (bytes >= kWorthwhile && aligned) {
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

}  // namespace anello::transport
