#include "transports/verbs/endpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/uncancelled.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <arpa/inet.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

namespace anello::transport {
namespace {

// The time for the last pieces of a lane to reach the peer's adapter, which needs no help of the peer.
constexpr int kLastPiecesMs = 1000;

constexpr unsigned kIdleLooks = 1024;

constexpr VerbsPairShape kLane{kLaneRequests, kLaneRequests, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 1};

// The time in which an adapter gives up by itself, and a second.
timespec time_of_tries(const VerbsSettings& settings) {
  const std::int64_t once_ns = std::int64_t{4096} << std::clamp(settings.timeout, 0, 31);
  const std::int64_t ns = once_ns * (settings.retry + 1) + 1'000'000'000;
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

void watch(int events, int descriptor) {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  if (::epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &wanted) != 0) throw system_error("epoll_ctl", errno);
}

}  // namespace

VerbsEndpoint::VerbsEndpoint(int peer, VerbsRemoteMemory& memory, UniqueFd socket)
    : peer_(peer),
      memory_(memory),
      socket_(std::move(socket)),
      ring_(memory.port(), kLaneRingBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
      staging_(memory.port(), kLaneRingBytes, 0),
      pair_(memory.port(), kLane),
      transfers_(peer, memory.port(), memory.registrations()),
      in_(ring_.data()),
      out_(pair_, staging_, in_),
      exchange_(socket_.get()),
      dead_link_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      spare_(std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes)) {
  if (!events_) throw system_error("epoll_create1", errno);
  if (!dead_link_) throw system_error("timerfd_create", errno);
  watch(events_.get(), dead_link_.get());
  watch(events_.get(), pair_.descriptor());
  watch(events_.get(), socket_.get());
  watch(events_.get(), memory.port()->events().descriptor());
  if (!transfers_.is_over()) watch(events_.get(), transfers_.descriptor());
  VerbsGreeting mine;
  mine.port = memory.port()->address();
  mine.lane = pair_.name();
  mine.memory = transfers_.name();
  mine.ring = reinterpret_cast<std::uintptr_t>(ring_.data());
  mine.ring_key = ring_.remote_key();
  // A peer that is gone already is found when its greeting is awaited.
  exchange_.say(mine);
  memory_.add(peer, transfers_);
}

VerbsEndpoint::~VerbsEndpoint() {
  if (in_forked_child()) return;
  memory_.remove(peer_, transfers_);
  finish_sending();
  pair_.drain();
}

// Both ends may close at once: who hears that the other has left waits no longer.
void VerbsEndpoint::finish_sending() {
  if (state_ != State::open || is_over() || gone_) return;
  told_no_memory_ = true;
  out_.say_once(PieceNumber::kGoodbye);
  const Deadline limit = Deadline::in_ms(kLastPiecesMs);
  while (!is_over() && !gone_ && !out_.is_done() && !limit.passed()) {
    progress();
    if (out_.is_done()) break;
    look_at_socket();
    ::sched_yield();
  }
}

// ---- Progress ----

void VerbsEndpoint::progress() {
  if (!broken_.empty()) return;
  if (state_ != State::open) greet();
  for (std::span<const ibv_wc> came = pair_.poll(); !came.empty(); came = pair_.poll()) {
    for (const ibv_wc& completion : came) take(completion);
    if (used_receives_ > 0 && broken_.empty() && pair_.post_receives(used_receives_) != 0)
      break_off("ibv_post_recv failed");
    used_receives_ = 0;
  }
  out_.return_credit();
  look_at_transfers();
  if (out_.broken() != 0 && broken_.empty()) break_off(system_text("ibv_post_send", out_.broken()));
}

// The peer's adapter would ask one that does not answer for seconds.
void VerbsEndpoint::look_at_transfers() {
  if (!transfers_.is_over() || told_no_memory_ || state_ != State::open) return;
  told_no_memory_ = true;
  out_.say_once(PieceNumber::kNoMemory);
}

void VerbsEndpoint::look_at_port() {
  VerbsPortEvents& events = memory_.port()->events();
  events.look();
  if (events.has_failed() && broken_.empty()) break_off("this rank's adapter has failed");
  limit_dead_link();
}

// Adapters end what they cannot send after a while. The kernel's software one may not, and both ends would sleep.
void VerbsEndpoint::limit_dead_link() {
  const bool waits = broken_.empty() && memory_.port()->events().is_link_down() && !out_.is_done();
  itimerspec left{};
  if (waits != link_is_timed_) {
    if (waits) left.it_value = time_of_tries(memory_.port()->settings());
    link_is_timed_ = waits && ::timerfd_settime(dead_link_.get(), 0, &left, nullptr) == 0;
    if (!waits) ::timerfd_settime(dead_link_.get(), 0, &left, nullptr);
    return;
  }
  if (!waits || ::timerfd_gettime(dead_link_.get(), &left) != 0) return;
  if (left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0)
    break_off("the link of this rank's port is down, and the adapter has given up nothing by itself");
}

void VerbsEndpoint::greet() {
  switch (exchange_.look()) {
    case GreetingExchange::News::none: return;
    case GreetingExchange::News::greeting: {
      const VerbsGreeting& theirs = exchange_.theirs();
      const std::string why_not = pair_.connect(theirs.port, theirs.lane);
      if (!why_not.empty()) return break_off(why_not);
      transfers_.connect(theirs.port, theirs.memory);
      state_ = State::connected;
      exchange_.say_can_receive();
      return;
    }
    case GreetingExchange::News::can_receive:
      if (state_ != State::connected) return break_off("its greeting is wrong");
      state_ = State::open;
      transfers_.open();
      out_.open(exchange_.theirs().ring, exchange_.theirs().ring_key);
      return;
    case GreetingExchange::News::gone: gone_ = true; return break_off("it closed the connection");
    case GreetingExchange::News::corrupt:
      return break_off("its greeting is wrong; it is not an Anello of this version");
  }
}

// Of a completion with an error, only the id, the status and the vendor's code are valid.
void VerbsEndpoint::take(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    if (!broken_.empty()) return;
    look_at_port();
    const bool is_link_down = memory_.port()->events().is_link_down();
    break_off(text(completion_text(completion.status, completion.vendor_err),
                   is_link_down ? "; the link of this rank's port is down" : ""));
    return;
  }
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    ++used_receives_;
    take_number(ntohl(completion.imm_data));
  } else if (completion.opcode == IBV_WC_RDMA_WRITE) {
    out_.completed(completion.wr_id);
  }
}

void VerbsEndpoint::take_number(std::uint32_t number) {
  if (number == PieceNumber::kGoodbye) {
    closed_ = true;
    return transfers_.give_up("the peer closed the lane");
  }
  if (number == PieceNumber::kNoMemory) return transfers_.give_up("they have failed at the peer");
  const PieceNumber piece = PieceNumber::from(number);
  if (in_.arrive(piece.slots) && out_.take_credit(piece.credit)) return;
  failure_ = Error(ANELLO_ERR_CORRUPT,
                   text("rank ", peer_, " wrote more than it may into the ring it sends to; its process has a memory ",
                        "fault or is not an Anello of this version"),
                   peer_);
}

// What the peer sent before it ended is in the completion queue already.
void VerbsEndpoint::look_at_socket() {
  if (gone_ || state_ != State::open) return;
  const Uncancelled whole;
  char byte = 0;
  const ssize_t got = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  gone_ = true;
  // It would keep every sleeper awake.
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
  progress();
  if (!is_over()) break_off("it closed the connection");
}

// ---- Failure ----

void VerbsEndpoint::break_off(const std::string& cause) {
  broken_ = cause;
  // The error of the call has control's words, which know nothing of adapters.
  log::info(-1, "the lane to rank ", peer_, " ends: ", cause, " (over ", pair_.port().name(), ")");
  transfers_.give_up("the lane has failed");
}

// A lane that sends no more may still have frames to deliver, which come first.
void VerbsEndpoint::fail_if_over() {
  if (failure_ || in_.has_more()) return;
  if (in_.corrupt()) {
    failure_ = Error(ANELLO_ERR_CORRUPT,
                     text("rank ", peer_, " sent a frame larger than any can be; its process has a memory fault or is ",
                          "not an Anello of this version"),
                     peer_);
  } else if (is_over() && memory_.port()->events().has_failed()) {
    failure_ = Error(ANELLO_ERR_SYSTEM,
                     text("the adapter of ", pair_.port().name(), " has failed, and with it the lane to rank ", peer_,
                          "; see the kernel's log (dmesg)"),
                     peer_);
  } else if (is_over()) {
    failure_ = Error(ANELLO_ERR_PEER_LOST,
                     text("rank ", peer_, " is lost: ", closed_ ? "it closed the lane" : broken_, " (over ",
                          pair_.port().name(), ")"),
                     peer_);
  }
}

// ---- Sending ----

bool VerbsEndpoint::write(const FrameHeader& header, const std::byte* payload) {
  if (is_over()) return false;
  if (!out_.has_room_for(header.bytes)) progress();
  if (out_.write(header, payload)) return true;
  progress();
  return !is_over() && out_.has_room() && out_.write(header, payload);
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
  progress();
  look_at_socket();
  return is_over() ? 0 : out_.unsent_bytes();
}

// ---- Receiving ----

const FrameHeader* VerbsEndpoint::incoming() {
  if (failure_) return nullptr;
  if (!in_.has_more()) progress();
  const FrameHeader* const header = in_.incoming();
  if (header != nullptr) return header;
  // A rank that polls instead of sleeping must also hear of its peer's end.
  if (++idle_looks_ % kIdleLooks == 0) {
    look_at_socket();
    look_at_port();
  }
  fail_if_over();
  return nullptr;
}

std::size_t VerbsEndpoint::receive(std::byte* into, std::size_t bytes) {
  if (failure_) return 0;
  if (!in_.has_more()) progress();
  const std::size_t done = in_.receive(into, bytes);
  out_.return_credit();
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
  out_.return_credit();
}

std::size_t VerbsEndpoint::arrived() {
  if (failure_) return 0;
  if (in_.arrived() < in_.remaining()) progress();
  return in_.arrived();
}

// ---- Sleeping ----

bool VerbsEndpoint::before_sleep() {
  if (failure_) return false;
  pair_.arm();
  transfers_.arm();
  look_at_socket();
  look_at_port();
  progress();
  transfers_.progress();
  const bool over = is_over() && !in_.has_more();
  return in_.news() || over || transfers_.has_ended() || (out_.starved() && out_.has_room());
}

}  // namespace anello::transport
