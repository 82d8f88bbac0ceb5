#include "transports/verbs/rails.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/timerfd.h>

namespace anello::transport {
namespace {

// The time for an adapter to end what has been posted on a queue pair that has been stopped.
constexpr std::int64_t kEndingNs = 5'000'000'000;

// The time in which an adapter gives up by itself, and a second.
std::int64_t time_of_tries_ns(const VerbsSettings& settings) {
  const std::int64_t once_ns = std::int64_t{4096} << std::clamp(settings.timeout, 0, 31);
  return once_ns * (settings.retry + 1) + 1'000'000'000;
}

}  // namespace

VerbsRails::VerbsRails(int peer, const VerbsPorts& ports, UniqueFd socket, LaneUser& lane)
    : peer_(peer),
      lane_(lane),
      socket_(std::move(socket)),
      notes_(socket_.get()),
      ring_(kLaneRingBytes),
      staging_(kLaneRingBytes),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!events_) throw system_error("epoll_create1", errno);
  if (!timer_) throw system_error("timerfd_create", errno);
  Error first;
  std::string reasons;
  for (const std::shared_ptr<VerbsPort>& port : ports) {
    try {
      Track track;
      track.rail = std::make_unique<VerbsRail>(port, ring_, staging_);
      rails_.push_back(std::move(track));
      watch(port->events().descriptor());
    } catch (const Error& why_not) {
      if (!first) first = why_not;
      reasons += text(reasons.empty() ? "" : "; ", why_not.text());
    }
    if (rails_.size() == kMostRails) break;
  }
  if (rails_.empty()) throw Error(first.code(), reasons);
  if (first) log::info(-1, "the lane to rank ", peer, " does without some ports: ", reasons);
  for (const Track& track : rails_) watch(track.rail->descriptor());
  watch(socket_.get());
  watch(timer_.get());
}

void VerbsRails::watch(int descriptor) const {
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &wanted) != 0) throw system_error("epoll_ctl", errno);
}

std::string VerbsRails::name() const {
  std::string names;
  for (const Track& track : rails_) names += text(names.empty() ? "" : ", ", track.rail->port()->name());
  return names;
}

// ---- Meeting ----

VerbsPorts VerbsRails::ports() const {
  VerbsPorts ports;
  for (const Track& track : rails_) ports.push_back(track.rail->port());
  return ports;
}

RailOffer VerbsRails::offer_of(const Track& track) {
  RailOffer offer = track.rail->offer();
  offer.memory = lane_.offers(*track.rail->port());
  return offer;
}

void VerbsRails::greet() {
  VerbsGreeting mine;
  mine.ring = reinterpret_cast<std::uintptr_t>(ring_.data());
  for (const Track& track : rails_) mine.offers[mine.ports++] = offer_of(track);
  // A peer that is gone already is found when its greeting is awaited.
  notes_.say(mine);
}

void VerbsRails::meet() {
  std::vector<PortAddress> mine, others;
  const VerbsGreeting& greeting = notes_.theirs();
  for (const Track& track : rails_) mine.push_back(track.rail->offer().port);
  for (std::uint32_t i = 0; i < greeting.ports; ++i) others.push_back(greeting.offers[i].port);
  const std::vector<int> partners = match_ports(mine, others);
  for (std::size_t i = 0; i < rails_.size(); ++i) rails_[i].partner = partners[i];
  for (Track& track : rails_) {
    if (track.partner < 0) {
      track.rail->stop("the peer has no port that goes with it");
      continue;
    }
    track.theirs = greeting.offers[std::size_t(track.partner)];
    track.has_offer = true;
    connect(track);
  }
}

void VerbsRails::connect(Track& track) {
  track.has_offer = track.is_ready = false;
  lane_.is_offered(*track.rail->port(), std::size_t(track.partner), track.theirs);
  const std::string why_not = track.rail->connect(track.theirs);
  if (!why_not.empty()) return track.rail->stop(why_not);
  if (track.rail->state() == VerbsRail::State::connected) say_ready(track);
}

void VerbsRails::say_ready(Track& track) {
  tell(RailNote::ready, track);
  if (!track.is_ready) return;
  track.rail->open();
  has_opened_ = true;
}

// ---- Notes ----

VerbsRails::Track* VerbsRails::of_peers(std::uint32_t port) {
  const auto found =
      std::find_if(rails_.begin(), rails_.end(), [port](const Track& each) { return each.partner == int(port); });
  return found == rails_.end() ? nullptr : &*found;
}

void VerbsRails::tell(RailNote::Kind kind, const Track& track) {
  RailNote note;
  note.kind = kind;
  note.port = std::uint32_t(&track - rails_.data());
  note.came = track.rail->came();
  if (kind == RailNote::offer) note.offered = offer_of(track);
  if (!notes_.say(note)) gone_ = true;
}

void VerbsRails::read_notes() {
  while (broken_.empty() && !gone_) {
    switch (notes_.look()) {
      case NoteExchange::News::none: return;
      case NoteExchange::News::greeting: meet(); break;
      case NoteExchange::News::note: take(notes_.note()); break;
      case NoteExchange::News::gone: gone_ = true; break;
      case NoteExchange::News::corrupt:
        return break_off("what it says of its adapters is wrong; it is not an Anello of this version");
    }
  }
}

void VerbsRails::take(const RailNote& note) {
  Track* const track = of_peers(note.port);
  if (track == nullptr) return;  // a port of the peer's that goes with none
  VerbsRail& rail = *track->rail;
  settled_ = false;
  switch (RailNote::Kind(note.kind)) {
    case RailNote::ready:
      track->is_ready = rail.state() == VerbsRail::State::joining;
      if (rail.state() != VerbsRail::State::connected) return;
      rail.open();
      has_opened_ = true;
      return;
    case RailNote::down:
      track->is_told = true;
      track->has_offer = false;
      track->came_there = note.came;
      return rail.stop("the peer's end has failed");
    case RailNote::offer:
      track->theirs = note.offered;
      track->has_offer = true;
      // Its next note says that it is connected.
      if (rail.state() == VerbsRail::State::made) connect(*track);
      return;
  }
}

// ---- Moving ----

std::size_t VerbsRails::count_open() const {
  return std::size_t(std::count_if(rails_.begin(), rails_.end(),
                                   [](const Track& each) { return each.rail->state() == VerbsRail::State::open; }));
}

bool VerbsRails::post(const LanePiece& piece, std::uint32_t number) {
  while (true) {
    VerbsRail* best = nullptr;
    for (const Track& track : rails_) {
      VerbsRail& rail = *track.rail;
      if (rail.state() != VerbsRail::State::open) continue;
      if (best == nullptr || rail.under_way() < best->under_way()) best = &rail;
    }
    if (best == nullptr) return false;
    if (best->post(piece, number, notes_.theirs().ring)) return true;
    if (best->state() == VerbsRail::State::open) return false;  // it has no room
    settled_ = false;
  }
}

void VerbsRails::progress() {
  if (!broken_.empty()) return;
  for (const Track& track : rails_) track.rail->poll(lane_);
  if (settled_ && all_settled()) return;
  read_notes();
  for (Track& track : rails_) move_on(track);
  settled_ = has_opened_ && all_settled();
  if (!broken_.empty()) return;
  if (count_up() == 0) return break_off(last_why());
  if (gone_ && !has_opened_) break_off("it closed the connection");
}

// Nothing happens to it until a completion, a note or an event comes.
bool VerbsRails::is_settled(const Track& track) const {
  switch (track.rail->state()) {
    case VerbsRail::State::open: return true;
    case VerbsRail::State::down: return !track.has_offer && !track.has_told && !track.is_told;
    case VerbsRail::State::ended: return track.partner < 0;
    default: return false;
  }
}

bool VerbsRails::all_settled() const {
  return std::all_of(rails_.begin(), rails_.end(), [this](const Track& each) { return is_settled(each); });
}

std::size_t VerbsRails::count_up() const {
  return std::size_t(std::count_if(rails_.begin(), rails_.end(), [](const Track& each) { return each.rail->is_up(); }));
}

// ---- The loss and the return of a rail ----

void VerbsRails::move_on(Track& track) {
  VerbsRail& rail = *track.rail;
  if (rail.state() == VerbsRail::State::made && track.has_offer) connect(track);
  if (rail.takes_joined()) say_ready(track);
  if (rail.has_ended()) {
    if (count_up() > 0)
      log::info(-1, "the lane to rank ", peer_, " goes on without ", rail.port()->name(), ": ", rail.why());
    rail.end();
    say_down(track);
  }
  if (rail.state() == VerbsRail::State::ending && now_ns() - rail.stopped_ns() > kEndingNs)
    return break_off(text(rail.why(), ", and the adapter does not end what was posted"));
  if (rail.state() == VerbsRail::State::down && track.is_told && !track.has_told) say_down(track);
  if (track.is_told && track.has_told) {
    track.is_told = track.has_told = false;
    if (rail.state() == VerbsRail::State::ended && !rail.resolve(track.came_there, lane_))
      return break_off("it says that more has come to it than was sent");
  }
  if (rail.state() == VerbsRail::State::down && !track.has_told) bring_back(track);
}

void VerbsRails::say_down(Track& track) {
  if (track.partner < 0) return;
  tell(RailNote::down, track);
  track.has_told = true;
}

void VerbsRails::bring_back(Track& track) {
  VerbsRail& rail = *track.rail;
  const VerbsPortEvents& events = rail.port()->events();
  if (!(track.has_offer || rail.may_return()) || events.is_link_down() || events.has_failed()) return;
  if (!rail.port()->refresh()) return;
  try {
    rail.make();
    watch(rail.descriptor());
    tell(RailNote::offer, track);
    log::info(-1, "the lane to rank ", peer_, " takes ", rail.port()->name(), " again");
    if (track.has_offer) connect(track);
  } catch (const Error& why_not) {
    log::info(-1, "the lane to rank ", peer_, " cannot take ", rail.port()->name(), " again: ", why_not.text());
    if (track.has_offer) say_down(track);
    track.has_offer = false;
  }
}

// One that goes with a port of the peer's.
const VerbsRail* VerbsRails::find(const VerbsPort& port) const {
  const auto found = std::find_if(rails_.begin(), rails_.end(), [&](const Track& each) {
    return each.rail->port().get() == &port && each.partner >= 0;
  });
  return found == rails_.end() ? nullptr : found->rail.get();
}

bool VerbsRails::is_lost(const VerbsPort& port) const {
  const VerbsRail* const rail = find(port);
  return rail != nullptr && !rail->is_up();
}

bool VerbsRails::serves(const VerbsPort& port) const {
  const VerbsRail* const rail = find(port);
  return rail != nullptr && rail->state() == VerbsRail::State::open;
}

// Of the rail that was lost last.
const std::string& VerbsRails::last_why() const {
  const auto last = std::max_element(rails_.begin(), rails_.end(), [](const Track& a, const Track& b) {
    return a.rail->stopped_ns() < b.rail->stopped_ns();
  });
  return last->rail->why();
}

void VerbsRails::look_at_ports() {
  for (const Track& track : rails_) {
    VerbsRail& rail = *track.rail;
    VerbsPortEvents& events = rail.port()->events();
    events.look();
    if (events.has_failed()) rail.stop("this rank's adapter has failed");
    if (events.is_link_down() && rail.is_up() && count_up() > 1) rail.stop("its link is down");
    if (rail.state() == VerbsRail::State::down && rail.may_return()) settled_ = false;
  }
}

void VerbsRails::look(bool waits) {
  if (!broken_.empty()) return;
  look_at_ports();
  read_notes();
  progress();
  // What the peer sent before it ended is in the completion queues already.
  if (gone_ && broken_.empty()) break_off("it closed the connection");
  limit_waiting(waits);
}

// Adapters end what they cannot send after a while. The kernel's software one may not, nor those of iWARP for a quarter
// of an hour, and both ends would sleep.
void VerbsRails::limit_waiting(bool waits) {
  std::int64_t limit_ns = 0;
  bool link_is_down = false;
  for (const Track& track : rails_) {
    VerbsRail& rail = *track.rail;
    if (const std::int64_t asked_ns = rail.asked_ns(); asked_ns > 0) {
      limit_ns = asked_ns + time_of_tries_ns(rail.port()->settings());
      if (now_ns() >= limit_ns)
        rail.stop(text("its adapter has not answered for ", (now_ns() - asked_ns) / 1'000'000, " ms"));
    }
    if (rail.state() == VerbsRail::State::ending)
      limit_ns = now_ns() < rail.ends_ns() ? rail.ends_ns() : rail.stopped_ns() + kEndingNs;
    link_is_down |= rail.is_up() && rail.port()->events().is_link_down();
  }
  if (!broken_.empty() || !waits || !link_is_down) {
    dead_link_ns_ = 0;
  } else {
    if (dead_link_ns_ == 0) dead_link_ns_ = now_ns();
    limit_ns = dead_link_ns_ + time_of_tries_ns(rails_.front().rail->port()->settings());
    if (now_ns() >= limit_ns)
      return break_off("the link of this rank's port is down, and the adapter has given up nothing by itself");
  }
  set_timer(limit_ns);
}

void VerbsRails::set_timer(std::int64_t at_ns) {
  if (at_ns == timer_ns_) return;
  itimerspec at{};
  if (at_ns > 0) at.it_value = {at_ns / 1'000'000'000, at_ns % 1'000'000'000};
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
  timer_ns_ = at_ns;
}

bool VerbsRails::has_no_adapter() const {
  return std::all_of(rails_.begin(), rails_.end(),
                     [](const Track& each) { return each.rail->port()->events().has_failed(); });
}

void VerbsRails::break_off(const std::string& why) {
  if (!broken_.empty()) return;
  broken_ = why.empty() ? "no rail is left" : why;
  // It would keep every sleeper awake.
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
  // The error of the call has control's words, which know nothing of adapters.
  log::info(-1, "the lane to rank ", peer_, " ends: ", broken_, " (over ", name(), ")");
}

// ---- Sleeping, and the end ----

void VerbsRails::arm() {
  for (const Track& track : rails_) track.rail->arm();
}

void VerbsRails::drain() {
  for (const Track& track : rails_) track.rail->drain();
}

VerbsCounts VerbsRails::counts() const {
  VerbsCounts all;
  for (const Track& track : rails_) all += track.rail->counts();
  return all;
}

}  // namespace anello::transport
