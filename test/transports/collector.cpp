// The parts of the conformance suite: known payloads, a receiver, a sleeper, and the soak that uses all three.
#include "transports/conformance.h"

#include "base/clock.h"
#include "base/text.h"
#include "support/sanitizers.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include <poll.h>
#include <unistd.h>

namespace anello::testing {

using transport::Endpoint;
using transport::FrameHeader;

std::byte byte_of(int rank, std::uint32_t sequence, std::size_t n) {
  // A 64-bit multiply-mix of all three shows a shift by any number of bytes or frames.
  std::uint64_t x = (n / 8 + 1) * 0x9e3779b97f4a7c15ull + sequence * 0xbf58476d1ce4e5b9ull + std::uint64_t(rank + 1);
  x ^= x >> 29;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 32;
  return std::byte(x >> (n % 8 * 8));
}

std::vector<std::byte> payload_of(int rank, std::uint32_t sequence, std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t n = 0; n < bytes; ++n) payload[n] = byte_of(rank, sequence, n);
  return payload;
}

FrameHeader header_of(int rank, std::uint32_t sequence, std::size_t bytes) {
  FrameHeader header;
  header.bytes = static_cast<std::uint32_t>(bytes);
  header.kind = static_cast<std::uint16_t>(sequence * 7 + 1);
  header.flags = static_cast<std::uint16_t>(rank + 3);
  header.communicator = sequence * 0x100000001b3ull;
  header.digest = ~header.communicator;
  header.sequence = sequence;
  header.tag = sequence ^ 0x5a5a5a5au;
  header.argument = bytes * 3 + 1;
  return header;
}

std::string difference(const FrameHeader& header, std::span<const std::byte> payload, int rank, std::uint32_t sequence,
                       std::size_t bytes) {
  const FrameHeader expected = header_of(rank, sequence, bytes);
  if (std::memcmp(&header, &expected, sizeof header) != 0) {
    return text("header of frame ", sequence, ": bytes ", header.bytes, " for ", bytes, ", sequence ", header.sequence);
  }
  if (payload.size() != bytes) return text("frame ", sequence, " has ", payload.size(), " bytes for ", bytes);
  for (std::size_t n = 0; n < bytes; ++n) {
    if (payload[n] != byte_of(rank, sequence, n)) return text("byte ", n, " of ", bytes, " of frame ", sequence);
  }
  return {};
}

bool sleep_on(Endpoint& end, const TestArena& arena, int rank) {
  memory::Inbox& inbox = arena.of(rank).inbox(rank);
  inbox.sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool woken = true;
  if (!end.before_sleep()) {
    const short interest = static_cast<short>(POLLIN | (end.wants_room() ? POLLOUT : 0));
    pollfd on[2] = {{arena.bell(rank), POLLIN, 0}, {end.descriptor(), interest, 0}};
    woken = ::poll(on, end.descriptor() >= 0 ? 2 : 1, 20'000) != 0;
  }
  inbox.sleeping.store(0, std::memory_order_relaxed);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = ::read(arena.bell(rank), &count, sizeof count);
  return woken;
}

std::size_t Collector::take(std::size_t remaining) {
  if (!by_view) return end_.receive(bytes_.data() + got_, std::min(remaining, piece));
  const std::span<const std::byte> here = end_.view();
  if (here.empty()) return 0;
  if (here.size() > remaining) complaint = "a view goes beyond its frame";
  if (got_ % 16 == 0) {
    if (reinterpret_cast<std::uintptr_t>(here.data()) % 16 != 0) complaint = "a view is not aligned";
    if (here.size() < 16 && here.size() < remaining) complaint = "a view is shorter than an element";
  }
  std::size_t part = std::min(here.size(), std::max<std::size_t>(piece, 16));
  if (got_ % 16 != 0) {
    part = std::min(part, 16 - got_ % 16);  // the rules above hold again after this
  } else if (part < remaining) {
    part -= part % 16;
  }
  std::memcpy(bytes_.data() + got_, here.data(), part);
  end_.consume(part);
  return part;
}

bool Collector::poll() {
  if (!under_way_) {
    const FrameHeader* header = end_.incoming();
    if (header == nullptr) return false;
    header_ = *header;
    bytes_.resize(header_.bytes);
    got_ = 0;
    under_way_ = true;
  }
  while (got_ < header_.bytes) {
    const std::size_t remaining = end_.remaining();
    if (remaining != header_.bytes - got_) complaint = text("remaining says ", remaining, " after ", got_, " bytes");
    const std::size_t part = take(header_.bytes - got_);
    if (part == 0) return false;
    got_ += part;
  }
  if (end_.remaining() != 0) complaint = "remaining is not 0 at the end of a frame";
  under_way_ = false;
  return true;
}

namespace {

// Both ends compute each other's frame sizes, so they need not exchange them.
std::size_t soak_bytes(std::uint64_t seed, int rank, std::uint32_t sequence) {
  std::mt19937_64 random(seed * 2 + std::uint64_t(rank) + sequence * 0x9e3779b97f4a7c15ull);
  switch (random() % 8) {
    case 0: return 0;
    case 1:
    case 2:
    case 3: return random() % 65;
    case 4: return 64 * (random() % 40);
    case 5: return random() % 6000;
    case 6: return random() % 70'000;
    default: return transport::kMaxFrameBytes - random() % 3;
  }
}

}  // namespace

std::string soak_end(Endpoint& end, const TestArena& arena, int rank, std::uint64_t seed, int frames) {
  std::mt19937_64 random(seed + std::uint64_t(rank) * 77);
  Collector collector(end);
  std::uint32_t sent = 0, received = 0;
  const auto total = static_cast<std::uint32_t>(frames);
  std::vector<std::byte> payload;
  bool ready = false;  // payload belongs to frame `sent`
  const Deadline deadline = Deadline::in_ms(60'000 * std::int64_t{test::kTimeFactor});
  for (bool owing = true; sent < total || received < total || owing;) {
    bool moved = false;
    owing = !end.flush();
    if (sent < total) {
      if (!ready) payload = payload_of(rank, sent, soak_bytes(seed, rank, sent));
      ready = true;
      const bool was_mid_frame = end.mid_frame();
      if (end.send(header_of(rank, sent, payload.size()), payload.data())) {
        moved = true;
        ++sent;
        ready = false;
      } else if (!was_mid_frame && end.mid_frame() && random() % 3 == 0) {
        end.detach();
        std::fill(payload.begin(), payload.end(), std::byte{0xee});
        moved = owing = true;
        ++sent;
        ready = false;
      }
    }
    collector.piece = random() % 4 == 0 ? 16 + random() % 3000 : transport::kMaxFrameBytes;
    collector.by_view = random() % 2 == 0;
    if (received < total && collector.poll()) {
      const std::string wrong =
          difference(collector.header(), collector.payload(), 1 - rank, received, soak_bytes(seed, 1 - rank, received));
      if (!wrong.empty()) return wrong;
      moved = true;
      ++received;
    }
    if (!collector.complaint.empty()) return collector.complaint;
    if (end.failure() != nullptr) return text("after ", received, " frames: ", end.failure()->text());
    if (deadline.passed()) return text("no end after ", sent, " and ", received, " frames");
    if (!moved && (sent < total || received < total || owing) && random() % 4 == 0 && !sleep_on(end, arena, rank)) {
      return text("slept 20 s after ", sent, " and ", received, " frames");
    }
  }
  return {};
}

std::string soak(Lane& lane, std::uint64_t seed, int frames) {
  std::string wrong[2];
  std::thread other([&] { wrong[1] = soak_end(*lane.end[1], *lane.arena, 1, seed, frames); });
  wrong[0] = soak_end(*lane.end[0], *lane.arena, 0, seed, frames);
  other.join();
  return wrong[0] + wrong[1];
}

}  // namespace anello::testing
