#include "transports/shm/endpoint.h"

#include "base/text.h"

#include <cstring>

namespace anello::transport {

ShmEndpoint::ShmEndpoint(const memory::Arena& arena, int peer, int local_peer)
    : arena_(arena),
      peer_(peer),
      local_peer_(local_peer),
      writer_(arena, arena.index(), local_peer),
      reader_(arena, local_peer, arena.index()),
      spare_(std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes)) {}

ShmEndpoint::~ShmEndpoint() {
  // A forked child shares the rings, but the lane belongs to its parent.
  if (!in_forked_child()) writer_.close();
}

bool ShmEndpoint::first_send() {
  if (!arena_.commit_ring(arena_.index(), local_peer_)) {
    failure_ = Error(ANELLO_ERR_RESOURCE,
                     text("no shared memory for the lane to rank ", peer_, " (", arena_.layout().ring_bytes,
                          " bytes): raise the memory limit of this machine or container, or use fewer ranks"),
                     peer_);
    return false;
  }
  used_ = true;
  std::atomic<std::uint64_t>& bits = arena_.inbox(local_peer_).first_use[arena_.index() / 64];
  bits.fetch_or(std::uint64_t{1} << (arena_.index() % 64), std::memory_order_release);
  return true;
}

bool ShmEndpoint::send(const FrameHeader& header, const std::byte* payload) {
  if (failure_) return false;
  if (held_ && !flush()) return false;
  if (!used_ && !first_send()) return false;
  // Ranks that have taken turns so far are likely to continue.
  const bool waits = reader_.position() != answered_;
  answered_ = reader_.position();
  if (writer_.write(header, payload, waits)) return true;
  header_ = header;
  payload_ = payload;
  check_writer();
  return false;
}

void ShmEndpoint::detach() {
  if (!mid_frame() || failure_) return;
  const std::size_t taken = writer_.taken();
  std::memcpy(spare_.get() + taken, payload_ + taken, header_.bytes - taken);
  payload_ = spare_.get();
  held_ = true;
}

bool ShmEndpoint::flush() {
  if (!held_) return true;
  if (failure_) return false;
  if (writer_.write(header_, payload_, false)) held_ = false;
  check_writer();
  return !held_;
}

void ShmEndpoint::check_writer() {
  if (!writer_.corrupt()) return;
  failure_ = Error(ANELLO_ERR_CORRUPT,
                   text("rank ", peer_, " wrote an impossible position into the shared ring it reads from; its ",
                        "process has a memory fault or is not an Anello of this version"),
                   peer_);
}

void ShmEndpoint::check_reader() {
  if (reader_.closed()) {
    failure_ = Error(ANELLO_ERR_PEER_LOST, text("rank ", peer_, " closed its end of the shared-memory lane"), peer_);
  } else if (reader_.corrupt()) {
    failure_ = Error(ANELLO_ERR_CORRUPT,
                     text("rank ", peer_, " wrote an impossible frame into a shared ring; its process has a memory ",
                          "fault or is not an Anello of this version"),
                     peer_);
  }
}

const FrameHeader* ShmEndpoint::incoming() {
  if (failure_) return nullptr;
  const FrameHeader* header = reader_.incoming();
  if (header == nullptr) check_reader();
  return header;
}

std::size_t ShmEndpoint::receive(std::byte* into, std::size_t bytes) {
  if (failure_) return 0;
  const std::size_t done = reader_.receive(into, bytes);
  if (done == 0) check_reader();
  return done;
}

std::span<const std::byte> ShmEndpoint::view() {
  if (failure_) return {};
  const std::span<const std::byte> here = reader_.view();
  if (here.empty()) check_reader();
  return here;
}

void ShmEndpoint::consume(std::size_t bytes) {
  if (!failure_) reader_.consume(bytes);
}

bool ShmEndpoint::before_sleep() {
  if (failure_) return false;
  const bool starved = writer_.starved();
  if (starved) writer_.ask_for_room();
  // Orders the caller's sleep flag and the request for room before the reads below; the peer's fences in Arena::wake
  // and RingReader::release are the other half.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return reader_.news() || (starved && writer_.room_came());
}

}  // namespace anello::transport
