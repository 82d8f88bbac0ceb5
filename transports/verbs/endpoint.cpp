#include "transports/verbs/endpoint.h"

#include "base/clock.h"
#include "base/text.h"

#include <cstdint>
#include <cstring>

#include <sched.h>

namespace anello::transport {
namespace {

// The time for the last pieces of a lane to reach the peer's adapter, which needs no help of the peer.
constexpr int kLastPiecesMs = 1000;

// A rank that polls instead of sleeping must also hear of its peer's end, and of links: after so many turns and ns.
constexpr unsigned kTurnsOfALook = 16;
constexpr std::int64_t kLookNs = 5'000'000;

}  // namespace

VerbsEndpoint::VerbsEndpoint(int peer, VerbsRemoteMemory& memory, UniqueFd socket)
    : peer_(peer),
      memory_(memory),
      rails_(peer, memory.ports(), std::move(socket), *this),
      transfers_(peer, memory.with_registrations(rails_.ports())),
      in_(rails_.ring()),
      out_(rails_, in_),
      spare_(std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes)) {
  rails_.greet();
  memory_.add(peer, transfers_);
}

VerbsEndpoint::~VerbsEndpoint() {
  if (in_forked_child()) return;
  memory_.remove(peer_, transfers_);
  finish_sending();
  rails_.drain();
}

// Both ends may close at once: who hears that the other has left waits no longer.
void VerbsEndpoint::finish_sending() {
  if (!rails_.has_opened() || is_over() || rails_.is_peer_gone()) return;
  is_closing_ = true;
  out_.say_goodbye();
  const Deadline limit = Deadline::in_ms(kLastPiecesMs);
  while (!is_over() && !rails_.is_peer_gone() && !out_.is_done() && !limit.passed()) {
    progress();
    if (out_.is_done()) break;
    rails_.look(true);
    ::sched_yield();
  }
}

// ---- Progress ----

void VerbsEndpoint::progress() {
  if (!rails_.broken().empty()) return;
  if (++turns_ % kTurnsOfALook == 0 && now_ns() - looked_ns_ > kLookNs) return look();
  rails_.progress();
  out_.go_on();
  look_at_transfers();
}

void VerbsEndpoint::look() {
  looked_ns_ = now_ns();
  rails_.look(!out_.is_done());
  progress();
}

void VerbsEndpoint::look_at_transfers() {
  if (!rails_.has_opened() || is_closing_) return;
  transfers_.look_for_joining();
  for (std::size_t i = 0; i < transfers_.rails().size(); ++i) {
    VerbsTransferRail& rail = *transfers_.rails()[i];
    if (rails_.is_lost(rail.port())) transfers_.lose(rail, "their port is lost");
    if (!rail.is_over() && rails_.serves(rail.port())) rail.open();
    if (!rail.must_tell_end()) continue;
    // The peer's adapter would ask one that does not answer for seconds.
    rail.has_told_end();
    out_.say_once({PieceNumber::kNoMemory, std::uint8_t(i), rail.round()});
  }
}

VerbsPairName VerbsEndpoint::offers(const VerbsPort& port) {
  VerbsTransferRail* const rail = transfers_.find(port);
  if (rail == nullptr) return {};
  const VerbsPairName name = transfers_.offer(*rail);
  if (!rail->is_over()) rails_.watch(rail->descriptor());
  return name;
}

void VerbsEndpoint::is_offered(const VerbsPort& port, std::size_t partner, const RailOffer& theirs) {
  VerbsTransferRail* const rail = transfers_.find(port);
  if (rail != nullptr) transfers_.connect(*rail, partner, theirs.port, theirs.memory);
}

// The peer's transfers over that port have ended. Those of an older round are over here, too.
void VerbsEndpoint::peer_has_no_memory(std::size_t port, std::uint16_t round) {
  for (const auto& rail : transfers_.rails()) {
    if (rail->partner() == port && rail->round() == round) transfers_.lose(*rail, "they have failed at the peer");
  }
}

void VerbsEndpoint::came(std::uint32_t value) {
  const PieceNumber number = PieceNumber::from(value);
  if (number.slots == PieceNumber::kGoodbye) {
    says_goodbye_ = true;
    sent_there_ = number.count;
    return transfers_.give_up("the peer closed the lane");
  }
  if (number.slots == PieceNumber::kNoMemory) {
    return peer_has_no_memory(number.at, number.count);
  }
  if (in_.arrive(number.at, number.slots) && out_.take_credit(number.count)) return;
  failure_ = Error(ANELLO_ERR_CORRUPT,
                   text("rank ", peer_, " wrote more than it may into the ring it sends to; its process has a memory ",
                        "fault or is not an Anello of this version"),
                   peer_);
}

// ---- Failure ----

// A lane that sends no more may still have frames to deliver, which come first.
void VerbsEndpoint::fail_if_over() {
  if (failure_ || in_.has_more()) return;
  if (in_.corrupt()) {
    failure_ = Error(ANELLO_ERR_CORRUPT,
                     text("rank ", peer_, " sent a frame larger than any can be; its process has a memory fault or is ",
                          "not an Anello of this version"),
                     peer_);
    return;
  }
  if (!is_over()) return;
  transfers_.give_up("the lane has failed");
  if (!is_closed() && rails_.has_no_adapter()) {
    failure_ = Error(ANELLO_ERR_SYSTEM,
                     text("the adapter of ", rails_.name(), " has failed, and with it the lane to rank ", peer_,
                          "; see the kernel's log (dmesg)"),
                     peer_);
  } else {
    failure_ = Error(ANELLO_ERR_PEER_LOST,
                     text("rank ", peer_, " is lost: ", is_closed() ? "it closed the lane" : rails_.broken(), " (over ",
                          rails_.name(), ")"),
                     peer_);
  }
}

std::string VerbsEndpoint::trouble() const {
  if (is_closed() || rails_.is_peer_gone() || rails_.broken().empty()) return {};
  return text(rails_.broken(), " (over ", rails_.name(), ")");
}

// ---- Sending ----

bool VerbsEndpoint::write(const FrameHeader& header, const std::byte* payload) {
  if (is_over()) return false;
  if (!out_.has_room_for(header.bytes)) progress();
  if (tell_keys() && out_.write(header, payload)) return true;
  progress();
  return !is_over() && out_.has_room() && tell_keys() && out_.write(header, payload);
}

// They come before the address that needs them. False: there is no room.
bool VerbsEndpoint::tell_keys() {
  while (!out_.mid_frame() && transfers_.next_untold() != nullptr) {
    FrameHeader header;
    header.bytes = sizeof(MemoryKeys);
    const auto* const payload = reinterpret_cast<const std::byte*>(transfers_.next_untold());
    if (!out_.write(header, payload, FrameUse::keys)) return false;  // it has one slot
    transfers_.told();
  }
  return true;
}

bool VerbsEndpoint::send(const FrameHeader& header, const std::byte* payload) {
  if (failure_) return false;
  if (held_ && !flush()) return false;
  if (write(header, payload)) return true;
  header_ = header;
  payload_ = payload;
  fail_if_over();
  return false;
}

void VerbsEndpoint::detach() {
  if (!mid_frame()) out_.forget();
  if (!mid_frame() || failure_) return;
  const std::size_t taken = out_.payload_taken();
  std::memcpy(spare_.get() + taken, payload_ + taken, header_.bytes - taken);
  payload_ = spare_.get();
  held_ = true;
}

bool VerbsEndpoint::flush() {
  if (!held_) return true;
  if (failure_) return false;
  if (write(header_, payload_)) held_ = false;
  fail_if_over();
  return !held_;
}

std::size_t VerbsEndpoint::on_the_way() {
  if (failure_ || is_over()) return 0;
  look();
  return is_over() ? 0 : out_.unsent_bytes();
}

// ---- Receiving ----

const FrameHeader* VerbsEndpoint::incoming() {
  if (failure_) return nullptr;
  if (!in_.has_more()) progress();
  const FrameHeader* const header = in_.incoming();
  for (const MemoryKeys& keys : in_.keys()) transfers_.learn(keys);
  in_.keys().clear();
  if (header != nullptr) return header;
  fail_if_over();
  return nullptr;
}

std::size_t VerbsEndpoint::receive(std::byte* into, std::size_t bytes) {
  if (failure_) return 0;
  if (!in_.has_more()) progress();
  const std::size_t done = in_.receive(into, bytes);
  out_.go_on();
  if (done == 0) fail_if_over();
  return done;
}

std::span<const std::byte> VerbsEndpoint::view() {
  if (failure_) return {};
  if (in_.arrived() == 0) progress();
  const std::span<const std::byte> here = in_.view();
  if (here.empty()) fail_if_over();
  return here;
}

void VerbsEndpoint::consume(std::size_t bytes) {
  if (failure_) return;
  in_.consume(bytes);
  out_.go_on();
}

std::size_t VerbsEndpoint::arrived() {
  if (failure_) return 0;
  if (in_.arrived() < in_.remaining()) progress();
  return in_.arrived();
}

// ---- Sleeping ----

bool VerbsEndpoint::before_sleep() {
  if (failure_) return false;
  rails_.arm();
  transfers_.arm();
  look();
  transfers_.progress();
  const bool over = is_over() && !in_.has_more();
  return in_.news() || over || transfers_.has_ended() || (out_.starved() && out_.has_room());
}

}  // namespace anello::transport
