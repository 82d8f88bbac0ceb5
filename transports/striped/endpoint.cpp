#include "transports/striped/endpoint.h"

#include "base/text.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace anello::transport {
namespace {

// Communicator and digest of every piece but a frame's first. No frame of the executor's has them both.
constexpr std::uint64_t kFurtherPiece = 0x7069656365206f66;

bool is_further(const FrameHeader& header) {
  return header.communicator == kFurtherPiece && header.digest == kFurtherPiece;
}

// A full first piece announces a second one, which is empty if the frame ends there.
std::size_t pieces_of(std::size_t bytes) {
  if (bytes < kPieceBytes) return 1;
  return std::max<std::size_t>(2, (bytes + kPieceBytes - 1) / kPieceBytes);
}

std::size_t piece_bytes(std::size_t bytes, std::size_t offset) { return std::min(kPieceBytes, bytes - offset); }

}  // namespace

StripedEndpoint::StripedEndpoint(int peer, std::vector<Rail> rails)
    : peer_(peer), readiness_(rails.size()), spare_(std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes)) {
  for (Rail& rail : rails) {
    readiness_.add(tracks_.size(), rail.end->descriptor());
    tracks_.emplace_back();
    tracks_.back().end = std::move(rail.end);
    tracks_.back().name = std::move(rail.name);
  }
}

// ---- Sending ----

bool StripedEndpoint::send(const FrameHeader& header, const std::byte* payload) {
  if (failure_ || !flush()) return false;
  if (!sending_) begin(header, payload);
  return go_on();
}

void StripedEndpoint::begin(const FrameHeader& header, const std::byte* payload) {
  header_out_ = header;
  payload_ = payload;
  sending_ = true;
  dealt_ = 0;
}

bool StripedEndpoint::go_on() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rail = 0; rail < tracks_.size(); ++rail) {
      Track& track = tracks_[rail];
      if (track.offered || deal(rail)) moved |= offer(track);
    }
  }
  const bool waits = std::any_of(tracks_.begin(), tracks_.end(), [](const Track& track) { return track.offered; });
  if (waits || dealt_ < pieces_of(header_out_.bytes)) {
    check();
    return false;
  }
  sending_ = taken_ = held_ = false;
  return true;
}

// Gives a rail the next piece, unless that must go over another.
bool StripedEndpoint::deal(std::size_t rail) {
  if (dealt_ == pieces_of(header_out_.bytes) || (dealt_ < 2 && rail != dealt_)) return false;
  Track& track = tracks_[rail];
  track.offset = dealt_ * kPieceBytes;
  if (dealt_ == 0) {
    track.header = header_out_;
  } else {
    track.header = {};
    track.header.communicator = track.header.digest = kFurtherPiece;
    track.header.sequence = number_out_;
    track.header.argument = header_out_.bytes;
  }
  track.header.bytes = static_cast<std::uint32_t>(piece_bytes(header_out_.bytes, track.offset));
  track.offered = true;
  ++dealt_;
  ++number_out_;
  return true;
}

bool StripedEndpoint::offer(Track& track) {
  const bool gone = track.keeps ? track.end->flush() : track.end->send(track.header, payload_ + track.offset);
  taken_ |= gone || track.end->mid_frame();
  if (gone) track.offered = track.keeps = false;
  return gone;
}

void StripedEndpoint::detach() {
  if (failure_ || !sending_ || held_) return;
  for (Track& track : tracks_) {
    if (!track.offered) continue;
    track.keeps = track.end->mid_frame();
    track.end->detach();
    if (!track.keeps && taken_) {
      std::memcpy(spare_.get() + track.offset, payload_ + track.offset, track.header.bytes);
    }
    track.offered = taken_;
  }
  if (!taken_) {
    number_out_ -= static_cast<std::uint32_t>(dealt_);
    sending_ = false;
    return;
  }
  const std::size_t from = std::min<std::size_t>(dealt_ * kPieceBytes, header_out_.bytes);
  if (from < header_out_.bytes) std::memcpy(spare_.get() + from, payload_ + from, header_out_.bytes - from);
  payload_ = spare_.get();
  held_ = true;
}

bool StripedEndpoint::flush() {
  if (!held_) return true;
  return !failure_ && go_on();
}

std::size_t StripedEndpoint::on_the_way() {
  std::size_t bytes = 0;
  for (Track& track : tracks_) bytes += track.end->on_the_way();
  return failure_ ? 0 : bytes;
}

// ---- Receiving ----

const FrameHeader* StripedEndpoint::front_of(Track& track) {
  if (track.front == nullptr) track.front = track.end->incoming();
  return track.front;
}

const FrameHeader* StripedEndpoint::incoming() {
  if (failure_) return nullptr;
  if (arriving_) return &header_in_;
  const FrameHeader* const first = front_of(tracks_[0]);
  if (first == nullptr) {
    check();
    return nullptr;
  }
  std::size_t bytes = first->bytes;
  if (bytes == kPieceBytes) {
    const FrameHeader* const second = front_of(tracks_[1]);
    if (second == nullptr) {
      check();
      return nullptr;
    }
    bytes = is_further(*second) && second->sequence == number_in_ + 1 ? second->argument : 0;
  }
  if (is_further(*first) || bytes > kMaxFrameBytes || first->bytes != std::min(bytes, kPieceBytes)) {
    fail_as_corrupt();
    return nullptr;
  }
  header_in_ = *first;
  header_in_.bytes = static_cast<std::uint32_t>(bytes);
  arriving_ = true;
  consumed_ = 0;
  source_ = &tracks_[0];
  piece_left_ = first->bytes;
  if (bytes == 0) advance(0);
  return &header_in_;
}

// The rail that brings the next piece; null: it has not come.
StripedEndpoint::Track* StripedEndpoint::source() {
  if (source_ != nullptr) return source_;
  for (Track& track : tracks_) {
    const FrameHeader* const front = front_of(track);
    if (front == nullptr || !is_further(*front) || front->sequence != number_in_) continue;
    if (front->argument != header_in_.bytes || front->bytes != piece_bytes(header_in_.bytes, consumed_)) {
      fail_as_corrupt();
      return nullptr;
    }
    piece_left_ = front->bytes;
    return source_ = &track;
  }
  return nullptr;
}

std::size_t StripedEndpoint::receive(std::byte* into, std::size_t bytes) {
  std::size_t done = 0;
  while (!failure_ && done < bytes && remaining() > 0) {
    Track* const from = source();
    const std::size_t wanted = std::min(bytes - done, piece_left_);
    const std::size_t got = from == nullptr ? 0 : from->end->receive(into + done, wanted);
    if (got == 0) break;
    advance(got);
    done += got;
  }
  if (done == 0) check();
  return done;
}

std::span<const std::byte> StripedEndpoint::view() {
  if (failure_ || remaining() == 0) return {};
  Track* const from = source();
  const std::span<const std::byte> here = from == nullptr ? std::span<const std::byte>() : from->end->view();
  if (here.empty()) check();
  return here;
}

void StripedEndpoint::consume(std::size_t bytes) {
  if (failure_ || bytes == 0) return;
  source_->end->consume(bytes);
  advance(bytes);
}

void StripedEndpoint::advance(std::size_t bytes) {
  consumed_ += bytes;
  piece_left_ -= bytes;
  if (piece_left_ > 0) return;
  std::exchange(source_, nullptr)->front = nullptr;
  ++number_in_;
  if (consumed_ == header_in_.bytes) end_frame();
}

void StripedEndpoint::end_frame() {
  arriving_ = false;
  if (header_in_.bytes == kPieceBytes) {
    tracks_[1].front = nullptr;
    ++number_in_;
  }
  if (readiness_.asks_all()) return;
  for (std::size_t rail = 0; rail < tracks_.size(); ++rail) {
    readiness_.ask(rail, true, tracks_[rail].end->wants_room());
  }
}

// ---- State ----

// Bytes from before a rail's end come first. The peer's system has them when a rail ends in order, so what is not here
// then, will not come. Returns whether the lane has failed.
bool StripedEndpoint::check() {
  if (failure_) return true;
  const auto failed =
      std::find_if(tracks_.begin(), tracks_.end(), [](const Track& track) { return track.end->failure() != nullptr; });
  if (failed == tracks_.end()) return false;
  if (arriving_) {
    const Track* const next = source();
    if (failure_) return true;
    if (next != nullptr && next->end->failure() == nullptr) return false;
  } else if (front_of(tracks_[0]) != nullptr) {
    if (tracks_[0].front->bytes < kPieceBytes || front_of(tracks_[1]) != nullptr) return false;
  }
  const Error& error = *failed->end->failure();
  const std::string where =
      text(" (rail ", failed - tracks_.begin() + 1, " of ", tracks_.size(), ", ", failed->name, ")");
  failure_ = Error(error.code(), error.text() + where, peer_);
  if (!failed->end->trouble().empty()) trouble_ = failed->end->trouble() + where;
  return true;
}

void StripedEndpoint::fail_as_corrupt() {
  failure_ = Error(ANELLO_ERR_CORRUPT,
                   text("rank ", peer_, " sent a frame whose pieces do not fit together; its process has a memory ",
                        "fault or is not an Anello of this version"),
                   peer_);
}

// Whether bytes that come there can be consumed.
bool StripedEndpoint::helps(const Track& track) const {
  return track.end->failure() == nullptr && (track.front == nullptr || &track == source_);
}

bool StripedEndpoint::before_sleep() {
  if (failure_) return false;
  bool something = false;
  for (Track& track : tracks_) {
    something |= track.front == nullptr && front_of(track) != nullptr;
  }
  if (arriving_) source();
  for (std::size_t rail = 0; rail < tracks_.size(); ++rail) {
    Track& track = tracks_[rail];
    const bool arrivals = helps(track);
    something |= arrivals && track.end->before_sleep();
    readiness_.ask(rail, arrivals, track.end->wants_room());
  }
  return check() || something;
}

}  // namespace anello::transport
