#include "control/agent.h"

#include "base/log.h"
#include "base/text.h"
#include "control/bodies.h"
#include "control/host.h"

#include <algorithm>
#include <iterator>

namespace anello::control {

constexpr std::int64_t kGoodbyeMs = 1'500;
// The time to wait for the last messages of a rank that is gone; nothing comes from a host that has vanished.
constexpr std::int64_t kLastWordsMs = 1'000;
// The time for a running parent to forward the messages of such a rank.
constexpr std::int64_t kWordOfParentMs = 250;

Agent::Agent(Service& service, int rank, int size, std::int64_t timeout_ms)
    : service_(service),
      rank_(rank),
      size_(size),
      timeout_ms_(timeout_ms),
      standing_(static_cast<std::size_t>(size)),
      tree_(*this),
      lanes_(*this),
      regions_(*this),
      calls_(*this),
      detour_(*this),
      heartbeat_(*this, size) {}

Address Agent::open_listener() {
  listener_ = service_.door().unix_listener();
  return listener_->address();
}

void Agent::open_room(const JobId& job, const Key& key) {
  job_ = job;
  key_ = key;
  has_room_ = true;
  Room room;
  room.expected = {key, false};
  room.enter = [weak = weak_from_this()](Visitor visitor) {
    if (const auto self = weak.lock()) self->enter(std::move(visitor));
  };
  room.ranks = static_cast<std::size_t>(size_);
  service_.door().add(job, rank_, std::move(room));
}

void Agent::enter(Visitor visitor) {
  // A proved connection of another version cannot come here: the meeting place would not have let the rank in.
  if (leaving_ || !visitor.stream || visitor.from < 0 || visitor.from >= size_ || visitor.from == rank_) return;
  switch (visitor.purpose) {
    case Purpose::arena:
      if (on_arena) on_arena(std::move(visitor));
      break;
    case Purpose::control: tree_.adopt(visitor.from, std::move(visitor.stream)); break;
    case Purpose::lane: lanes_.adopt(visitor.from, std::move(visitor.stream)); break;
    case Purpose::rail: lanes_.adopt_rail(visitor.from, std::move(visitor.stream)); break;
    case Purpose::region: regions_.adopt(visitor.from, std::move(visitor.stream)); break;
    case Purpose::detour: detour_.adopt(visitor.from, std::move(visitor.stream)); break;
    case Purpose::rendezvous: break;
  }
}

void Agent::settle(std::vector<Peer> peers, std::shared_ptr<LocalGroup> group, std::shared_ptr<Listener> tcp,
                   std::vector<std::shared_ptr<Listener>> rails) {
  Seats seats;
  if (group) seats = {group->nonce(), this_host().process, group->layout().ranks, group->here};
  check_places(peers, rank_, seats);
  peers_ = std::move(peers);
  // The others may have failed to map the arena that this rank has mapped: then this rank is alone in it, and the arena
  // is useless.
  if (peer(rank_).member.local_index >= 0) group_ = std::move(group);
  tcp_ = std::move(tcp);
  rails_ = std::move(rails);
  on_arena = nullptr;
  for (Peer& peer : peers_) {
    peer.member.transports = peer.member.rank == rank_ ? 0 : transports_between(peers_[std::size_t(rank_)], peer);
  }
  watch_deaths();
  heartbeat_.start();
}

void Agent::watch_deaths() {
  if (!group_) return;
  watch_ = DeathWatch::of(service_, group_);
  watch_->tell(shared_from_this(), [weak = weak_from_this()](std::uint64_t process) {
    const auto self = weak.lock();
    if (!self || self->leaving_) return;
    for (int rank = 0; rank < self->size_; ++rank) {
      if (self->peer(rank).member.process == process) self->process_ended(rank);
    }
  });
}

// This rank sees the end at once, while the rank's last message, perhaps about a mismatch, may still be with the
// parent, which has its link.
void Agent::process_ended(int rank) {
  if (announced_leaving(rank)) return peer_gone(rank, "its process has ended");
  const Deadline word = Deadline::in_ms(kWordOfParentMs);
  const auto more = [this, rank, word] {
    const int parent = lowest_here();
    const bool parent_tells = parent != rank_ && parent != rank && tree_.link_to(parent) != nullptr && !word.passed();
    return parent_tells || tree_.has_more_from(rank, true);
  };
  read_rest(rank, more, [this, rank] { peer_gone(rank, "its process has ended"); });
}

void Agent::read_rest(int rank, std::function<bool()> more, std::function<void()> then) {
  if (more()) {
    service_.spawn("last words", read_rest_of_link(shared_from_this(), rank, std::move(more), std::move(then)));
  } else {
    then();
  }
}

Task<> Agent::read_rest_of_link(std::shared_ptr<Agent> self, int rank, std::function<bool()> more,
                                std::function<void()> then) {
  const Deadline limit = Deadline::in_ms(kLastWordsMs);
  while (!self->leaving_ && self->here(rank) && more() && !limit.passed()) co_await sleep_ms(self->service_.io(), 1);
  if (!self->leaving_ && self->here(rank)) then();
}

Call Agent::call_to(int peer, Purpose purpose, std::vector<Address> addresses, Deadline deadline) {
  Call call;
  call.addresses = std::move(addresses);
  call.credentials = {job_, key_, false, purpose, rank_, peer, kWireVersion};
  call.deadline = deadline;
  return call;
}

int Agent::lowest_here() const {
  for (int rank = 0; rank < size_; ++rank) {
    if (here(rank)) return rank;
  }
  return rank_;
}

std::string Agent::who(int rank) const { return peers_.empty() ? text("rank ", rank) : describe(peer(rank).member); }

bool Agent::watched(int rank) const {
  const std::uint64_t process = peer(rank).member.process;
  return process == this_host().process || (watch_ && watch_->watches(process));
}

bool Agent::same_host(int rank) const { return peer(rank).reach == peer(rank_).reach || watched(rank); }

std::vector<int> Agent::here_of_process(std::uint64_t process) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (here(rank) && peer(rank).member.process == process) ranks.push_back(rank);
  }
  return ranks;
}

void Agent::peer_gone(int rank, const std::string& how) {
  if (leaving_ || !here(rank) || rank == rank_) return;
  read_rest(
      rank, [this, rank] { return lanes_.is_coming(rank); }, [this, rank, how] { take_leave(rank, how); });
}

// A rank that leaves says so in the arena before its process ends or its connections close.
bool Agent::announced_leaving(int rank) const {
  if (peers_.empty() || !group_) return false;
  const Member& member = peer(rank).member;
  return member.local_index >= 0 && member.machine == group_->nonce() &&
         group_->arena(0).inbox(member.local_index).state.load(std::memory_order_acquire) == memory::RankState::left;
}

void Agent::take_leave(int rank, const std::string& how) {
  const Member* const member = peers_.empty() ? nullptr : &peer(rank).member;
  if (announced_leaving(rank)) {
    peer_left(rank, -1);
    return;
  }
  // A rank of this process cannot have died alone.
  if (member != nullptr && member->process == this_host().process) {
    peer_left(rank, -1);
    return;
  }
  peer_lost(rank, Error(ANELLO_ERR_PEER_LOST, text(who(rank), " is lost: ", how), rank), -1);
}

void Agent::peer_left(int rank, int reported_by) {
  if (leaving_ || rank == rank_ || !here(rank)) return;
  standing_[static_cast<std::size_t>(rank)] = Standing::left;
  if (goodbye_to_ == rank) goodbye_to_ = -1;
  log::debug(rank_, "rank ", rank, " left");
  tree_.send(Writer().put(rank).frame(kGoodbye), reported_by);
  tree_.forget(rank);
  lanes_.peer_gone(rank);
  Event event;
  event.kind = Event::Kind::left;
  event.peer = rank;
  mailbox_.put(std::move(event));
}

void Agent::peer_lost(int rank, Error error, int reported_by) {
  if (leaving_ || rank == rank_ || !here(rank)) return;
  standing_[static_cast<std::size_t>(rank)] = Standing::lost;
  log::info(rank_, error.text());
  Writer writer;
  writer.put(rank);
  put_error(writer, error);
  tree_.send(writer.frame(kLost), reported_by);
  tree_.forget(rank);
  lanes_.peer_gone(rank);
  Event event;
  event.kind = Event::Kind::lost;
  event.peer = rank;
  event.error = std::move(error);
  mailbox_.put(std::move(event));
}

Frame Agent::lost_by_silence(const std::vector<int>& ranks, const std::string& how) {
  Writer writer;
  const std::size_t listed = std::min(ranks.size(), kMaxListed);
  writer.put(static_cast<std::uint32_t>(listed));
  for (std::size_t i = 0; i < listed; ++i) writer.put(ranks[i]);
  return writer.put_text(how).frame(kSilent);
}

void Agent::report_silent(const std::vector<int>& ranks, const std::string& how, int reported_by) {
  if (leaving_) return;
  std::vector<int> lost;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(lost),
               [&](int rank) { return rank != rank_ && here(rank); });
  if (lost.empty()) return;
  tree_.send(lost_by_silence(lost, how), reported_by);
  std::vector<Event> events;
  for (const int rank : lost) {
    standing_[static_cast<std::size_t>(rank)] = Standing::lost;
    if (goodbye_to_ == rank) goodbye_to_ = -1;
    tree_.let_go(rank);
    lanes_.peer_gone(rank);
    Event event;
    event.kind = Event::Kind::lost;
    event.peer = rank;
    event.for_certain = true;
    event.error = Error(ANELLO_ERR_PEER_LOST, text(who(rank), " is lost: ", how), rank);
    log::info(rank_, event.error.text());
    events.push_back(std::move(event));
  }
  mailbox_.put(std::move(events));
}

void Agent::take_silence_report(int from, Reader& reader) {
  const auto [ranks, how] = take_silent(reader, size_);
  if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end()) return report_silent(ranks, how, from);
  report_silent({from}, text("it has given up on this rank, whose messages do not reach it: ", how), from);
}

void Agent::not_there(int rank, const Unknown& over) {
  if (over.process_answered) {
    peer_left(rank, -1);
  } else {
    peer_gone(rank, "its process has ended");
  }
}

// The time to wait before this rank accepts another rank's report of an end.
std::function<bool()> Agent::more_but_for(int from, int rank) {
  return [this, from, rank] { return (from != rank && tree_.has_more_from(rank, false)) || lanes_.is_coming(rank); };
}

void Agent::receive(int from, const Frame& frame) {
  Reader reader(frame.body);
  switch (frame.kind) {
    case kGoodbye: {
      const int rank = take_rank(reader, size_);
      read_rest(rank, more_but_for(from, rank), [this, rank, from] { peer_left(rank, from); });
      break;
    }
    case kLost: {
      const LostBody lost = take_lost(reader, size_);
      read_rest(lost.rank, more_but_for(from, lost.rank),
                [this, lost, from] { peer_lost(lost.rank, lost.error, from); });
      break;
    }
    case kAsk:
      if (auto answer = calls_.asked(reader)) tree_.send_to(answer->asker, answer->frame);
      tree_.send(frame, from);
      break;
    case kAnswer: {
      AnswerBody answer = take_answer(reader, size_);
      if (answer.asker == rank_) {
        calls_.answered(std::move(answer));
      } else {
        tree_.send_to(answer.asker, frame);
      }
      break;
    }
    case kFailed:
      // This comes first: this process may end as soon as its caller knows.
      tree_.send(frame, from);
      calls_.failed(reader);
      break;
    case kPassOn: {
      const auto number = reader.take<std::uint64_t>();
      reader.end();
      // The rank reports this only to itself: a parent would take it as a confirmation of this rank's messages.
      if (Link* const link = tree_.link_to(from)) link->send(Writer().put(number).frame(kPassedOn));
      break;
    }
    case kPassedOn: detour_.word_from_parent(reader); break;
    case kBeat: heartbeat_.beat(from, reader); break;
    case kLife:
      heartbeat_.told(reader);
      tree_.send(frame, from);
      break;
    case kSilent: take_silence_report(from, reader); break;
    default: throw Reader::corrupt();
  }
}

// A goodbye counts when the parent has forwarded it and closed the link. A parent that says goodbye itself meanwhile
// may not have read this one, so the next parent gets it again. Otherwise ranks that cannot observe this rank in
// another way would take its end for a death.
Task<> Agent::leave(std::shared_ptr<Agent> self, std::function<void()> done) {
  const Deadline limit = Deadline::in_ms(kGoodbyeMs);
  while (!self->detour_.settled() && !limit.passed()) co_await sleep_ms(self->service_.io(), 1);
  while (!self->leaving_ && self->tree_.needed() && !limit.passed()) {
    if (!self->tree_.settled()) {
      co_await sleep_ms(self->service_.io(), 1);
      continue;
    }
    const int parent = self->lowest_here();
    self->tree_.send(Writer().put(self->rank_).frame(kGoodbye));
    if (parent == self->rank_) break;
    self->goodbye_to_ = parent;
    while (self->goodbye_to_ == parent && !limit.passed()) co_await sleep_ms(self->service_.io(), 1);
  }
  self->leaving_ = true;
  if (self->has_room_) self->service_.door().remove(self->job_, self->rank_);
  self->listener_.reset();
  self->tcp_.reset();
  self->rails_.clear();
  self->lanes_.close();
  self->regions_.close();
  co_await self->tree_.finished(kGoodbyeMs);
  self->tree_.close();
  self->watch_.reset();
  self->group_.reset();
  done();
}

bool Agent::has_goodbye(int by) {
  if (goodbye_to_ != by) return false;
  goodbye_to_ = -1;
  leaving_ = true;
  return true;
}

}  // namespace anello::control
