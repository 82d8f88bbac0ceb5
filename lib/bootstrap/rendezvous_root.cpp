#include "bootstrap/rendezvous_root.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/rendezvous_wire.h"
#include "control/host.h"
#include "transports/registry.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

namespace anello::bootstrap {
namespace {

using namespace control;

constexpr std::int64_t kHelloMs = 10'000;
constexpr std::int64_t kTellPart = 30;  // of the allowed time, until the log gives a reason why ranks are missing
constexpr std::int64_t kLookForEndedMs = 100;
constexpr std::int64_t kLingerMs = 5'000;  // after a failure, to report it to late ranks
constexpr std::size_t kPeersBytes = 32 * 1024;

std::string list_of(const std::vector<int>& ranks) {
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr std::size_t kListed = 32;
  for (std::size_t i = 0; i < ranks.size() && i < kListed; ++i) list += text(i == 0 ? "" : ", ", ranks[i]);
  if (ranks.size() > kListed) list += text(" and ", ranks.size() - kListed, " more");
  return list;
}

std::string seconds(std::int64_t ms) { return ms % 1000 == 0 ? text(ms / 1000, " s") : text(ms, " ms"); }

}  // namespace

RendezvousRoot::RendezvousRoot(ServiceHold hold, Meeting meeting)
    : hold_(std::move(hold)),
      meeting_(std::move(meeting)),
      own_reach_(this_host().reach != 0 ? this_host().reach : random_number()),
      changed_(hold_->io()) {}

// A rank that connects over the Unix socket is on this process's host, whatever either of them can read about the host.
// Other ranks that do not know their host count as being together if they come from one address: they find out whether
// this is true when they gather.
std::uint64_t RendezvousRoot::reach_of(const Link& link, std::uint64_t said) const {
  const std::string ip = peer_address(link.stream()->descriptor()).ip;
  if (ip.empty()) return own_reach_;
  if (said != 0) return said;
  const Key place = key_from("anello host by address", bytes_of(text(own_reach_, " ", ip)));
  std::uint64_t reach;
  std::memcpy(&reach, place.bytes().data(), sizeof reach);
  return reach;
}

bool RendezvousRoot::open() {
  for (const Address& address : meeting_.listen) {
    auto listener = hold_->door().listen(address);
    if (!listener && !address.is_unix() && address.port != 0) {
      // torchrun's store may use the port: the ranks also try the next one.
      listener = hold_->door().listen({"", address.ip, static_cast<std::uint16_t>(address.port + 1)});
      if (!listener) {
        throw Error(ANELLO_ERR_ADDRESS, text("the meeting place ", address.describe(),
                                             " and the port after it are in "
                                             "use; choose another MASTER_PORT"));
      }
    }
    if (!listener) return false;
    listeners_.push_back(std::move(listener));
  }
  open_ = true;
  hold_->door().add(meeting_.job, -1,
                    {{meeting_.key, meeting_.same_user},
                     [self = shared_from_this()](Visitor visitor) { self->enter(std::move(visitor)); }});
  return true;
}

Address RendezvousRoot::tcp_address() const {
  for (const auto& listener : listeners_) {
    if (!listener->address().is_unix()) return listener->address();
  }
  return {};
}

void RendezvousRoot::close() {
  if (!open_) return;
  open_ = false;
  listeners_.clear();
  changed_.notify();
  hold_->door().remove(meeting_.job, -1);  // may free this object, unless its caller holds it
}

void RendezvousRoot::enter(Visitor visitor) {
  const auto self = shared_from_this();
  if (visitor.purpose != Purpose::rendezvous) return;
  if (!visitor.stream) {
    fail(Error(ANELLO_ERR_VERSION,
               text("rank ", visitor.from, " speaks wire version ", visitor.version, ", the meeting place ",
                    kWireVersion, "; use one build of Anello on all ranks"),
               visitor.from));
    return;
  }
  auto link = std::make_shared<Link>(*hold_, std::move(visitor.stream));
  hold_->spawn("rendezvous", serve(self, std::move(link), visitor.from));
}

Task<> RendezvousRoot::serve(std::shared_ptr<RendezvousRoot> self, std::shared_ptr<Link> link, int claimed) {
  int rank = -1;
  try {
    {
      const TimeLimit limit(link->stream(), kHelloMs);
      const Frame frame = co_await link->receive();
      if (frame.kind != kHello) throw Reader::corrupt();
      Reader reader(frame.body);
      Hello hello = take_hello(reader);
      Seat seat;
      seat.link = link;
      seat.size = hello.size;
      seat.peer = std::move(hello.peer);
      seat.peer.reach = self->reach_of(*link, seat.peer.reach);
      const int said = seat.peer.member.rank;
      if (said != claimed) throw Reader::corrupt();
      if (said == 0) self->shared_ = hello.shared;
      const std::int64_t deadline_ns = now_ns() + hello.left_ms * 1'000'000;
      if (self->deadline_ns_ == 0) {
        self->deadline_ns_ = deadline_ns;
        self->allowed_ms_ = hello.allowed_ms;
        self->hold_->spawn("rendezvous deadline", watch_deadline(self));
      } else if (deadline_ns < self->deadline_ns_) {
        self->deadline_ns_ = deadline_ns;
        self->allowed_ms_ = hello.allowed_ms;
        self->changed_.notify();
      }
      self->seat(said, std::move(seat));
      rank = said;
    }
    for (;;) {
      const Frame frame = co_await link->receive();
      if (self->phase_ != Phase::over) self->handle(rank, frame);
    }
  } catch (const Error& error) {
    if (rank < 0 || self->phase_ == Phase::over) co_return;
    const auto seat = self->seats_.find(rank);
    if (seat == self->seats_.end() || seat->second.link != link) co_return;
    const std::string who = describe(self->peer(rank).member);
    self->fail(error.code() == ANELLO_ERR_CORRUPT
                   ? Error(ANELLO_ERR_CORRUPT, text(who, " sent an impossible message: ", error.text()), rank)
                   : Error(ANELLO_ERR_RENDEZVOUS, text(who, " ended before all ranks had met"), rank));
  }
}

Task<> RendezvousRoot::watch_deadline(std::shared_ptr<RendezvousRoot> self) {
  bool told = self->meeting_.hint.empty();
  const Deadline soon = Deadline::in_ms(self->allowed_ms_ / kTellPart);
  while (self->phase_ != Phase::over) {
    const std::int64_t left_ms = (self->deadline_ns_ - now_ns()) / 1'000'000;
    if (left_ms <= 0) {
      self->fail(self->missing());
      break;
    }
    if (const int rank = self->ended_without_coming(); rank >= 0) {
      self->fail(Error(ANELLO_ERR_RENDEZVOUS,
                       text("rank ", rank, " has ended without coming to ", self->meeting_.place), rank));
      break;
    }
    if (!told && soon.passed() && self->phase_ == Phase::gathering) {
      log::warn(-1, list_of(self->not_seated()), " of ", self->size_, " did not come yet; ", self->meeting_.hint);
      told = true;
    }
    std::int64_t wait_ms = told ? left_ms : std::min(left_ms, soon.left_ms());
    if (self->meeting_.ended) wait_ms = std::min(wait_ms, kLookForEndedMs);
    co_await self->changed_.wait(wait_ms + 1);
  }
}

int RendezvousRoot::ended_without_coming() const {
  if (!meeting_.ended || phase_ != Phase::gathering) return -1;
  for (const int rank : not_seated()) {
    if (meeting_.ended->has(rank)) return rank;
  }
  return -1;
}

std::vector<int> RendezvousRoot::not_seated() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!seats_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

Error RendezvousRoot::missing() const {
  if (phase_ == Phase::gathering) {
    const std::vector<int> ranks = not_seated();
    return {ANELLO_ERR_RENDEZVOUS, text(list_of(ranks), " of ", size_, " did not come within ", seconds(allowed_ms_),
                                        " to ", meeting_.place, meeting_.hint.empty() ? "" : "; ", meeting_.hint)};
  }
  const std::vector<int> ranks(expected_.begin(), expected_.end());
  return {ANELLO_ERR_RENDEZVOUS,
          text(list_of(ranks), " of ", size_, " came, but did not finish creation within ", seconds(allowed_ms_))};
}

void RendezvousRoot::seat(int rank, Seat seat) {
  if (failure_) {
    Writer writer;
    put_error(writer, failure_);
    seat.link->send(writer.frame(kRefuse));
    return;
  }
  const std::string who = describe(seat.peer.member);
  if (const auto taken = seats_.find(rank); taken != seats_.end() || phase_ != Phase::gathering) {
    const std::string first = taken != seats_.end() ? describe(taken->second.peer.member) : "another";
    const Error error(ANELLO_ERR_RENDEZVOUS, text("two processes claim to be rank ", rank, ": ", first, " and ", who),
                      rank);
    Writer writer;
    put_error(writer, error);
    seat.link->send(writer.frame(kRefuse));
    fail(error);
    return;
  }
  const std::shared_ptr<Link> link = seat.link;
  const int size = seat.size;
  seats_[rank] = std::move(seat);
  log::debug(-1, who, " came to ", meeting_.place);
  if (size_ == 0) {
    size_ = size;
    hold_->door().expect(meeting_.job, -1, static_cast<std::size_t>(size));
  }
  if (size != size_) {
    const auto other =
        std::find_if(seats_.begin(), seats_.end(), [&](const auto& s) { return s.second.size == size_; });
    fail(Error(ANELLO_ERR_RENDEZVOUS,
               text("ranks differ about the size of the world: ", who, " says ", size, ", ",
                    describe(other->second.peer.member), " says ", size_),
               rank));
    return;
  }
  if (static_cast<int>(seats_.size()) == size_) group();
}

void RendezvousRoot::tell(int rank, const Frame& frame) { seats_.at(rank).link->send(frame); }

void RendezvousRoot::tell_peers() {
  std::vector<Frame> frames;
  for (int next = 0; next < size_;) {
    Writer body;
    std::uint32_t count = 0;
    while (next < size_ && body.size() < kPeersBytes) {
      put_peer(body, peer(next++));
      ++count;
    }
    Writer writer;
    writer.put(count);
    Frame frame = writer.frame(kPeers);
    frame.body += body.frame(0).body;
    frames.push_back(std::move(frame));
  }
  for (const auto& [rank, seat] : seats_) {
    for (const Frame& frame : frames) seat.link->send(frame);
  }
}

void RendezvousRoot::expect(Phase phase, std::set<int> ranks) {
  phase_ = phase;
  expected_ = std::move(ranks);
  if (expected_.empty()) advance();
}

void RendezvousRoot::done(int rank) {
  if (expected_.erase(rank) == 0) throw Reader::corrupt();
  if (expected_.empty()) advance();
}

void RendezvousRoot::advance() {
  switch (phase_) {
    case Phase::arriving: form(); break;
    case Phase::mapping: settle_arenas(); break;
    case Phase::listening:
      tell_peers();
      for (int rank = 0; rank < size_; ++rank) tell(rank, Frame{kFinal, {}});
      {
        std::set<int> all;
        for (int rank = 0; rank < size_; ++rank) all.insert(rank);
        expect(Phase::linking, std::move(all));
      }
      break;
    case Phase::linking: finish(); break;
    case Phase::gathering:
    case Phase::over: break;
  }
}

// Ranks that may share memory gather at the lowest of them.
void RendezvousRoot::group() {
  using GroupKey = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>;
  std::map<GroupKey, std::vector<int>> groups;
  for (auto& [rank, seat] : seats_) {
    Peer& p = seat.peer;
    p.member.local_index = -1;
    p.member.machine = random_number();
    p.leader = -1;
    if (transport::over_arena(p.transports) == 0) continue;
    const bool beyond_process = (p.transports & transport::transports_over(transport::Over::arena)) != 0;
    groups[{p.reach, p.uid, beyond_process ? 0 : p.member.process}].push_back(rank);
  }
  std::set<int> expected;
  for (const auto& [key, ranks] : groups) {
    for (std::size_t first = 0; first < ranks.size(); first += memory::kMaxLocalRanks) {
      const std::size_t end = std::min(ranks.size(), first + memory::kMaxLocalRanks);
      if (end - first < 2) continue;
      for (std::size_t i = first; i < end; ++i) {
        seats_.at(ranks[i]).peer.leader = ranks[first];
        expected.insert(ranks[i]);
      }
    }
  }
  tell_peers();
  std::array<std::byte, 32> random;
  fill_random(random);
  Writer writer;
  writer.put_bytes(random);
  put_shared(writer, shared_);
  const Frame session = writer.frame(kSession);
  for (int rank = 0; rank < size_; ++rank) tell(rank, session);
  expect(Phase::arriving, std::move(expected));
}

void RendezvousRoot::form() {
  std::set<int> expected;
  for (const auto& [leader, ranks] : arrived_) {
    if (ranks.size() < 2 || std::find(ranks.begin(), ranks.end(), leader) == ranks.end()) continue;
    Writer writer;
    writer.put(static_cast<std::uint32_t>(ranks.size()));
    for (const int rank : ranks) writer.put(rank);
    tell(leader, writer.frame(kForm));
    expected.insert(ranks.begin(), ranks.end());
  }
  expect(Phase::mapping, std::move(expected));
}

void RendezvousRoot::settle_arenas() {
  std::map<std::uint64_t, int> sharers;
  for (const auto& [rank, seat] : seats_) {
    if (seat.peer.member.local_index >= 0) ++sharers[seat.peer.member.machine];
  }
  for (auto& [rank, seat] : seats_) {
    Member& member = seat.peer.member;
    if (member.local_index >= 0 && sharers[member.machine] < 2) {
      member.local_index = -1;
      member.machine = random_number();
    }
  }
  std::set<int> listen;
  for (int a = 0; a < size_; ++a) {
    for (int b = a + 1; b < size_; ++b) {
      const std::uint32_t transports = transports_between(peer(a), peer(b));
      if (transports == 0) {
        std::string why = why_no_transport(peer(a), peer(b));
        for (const int rank : {a, b}) {
          if (cannot_.contains(rank)) why += text(" (", describe(peer(rank).member), ": ", cannot_.at(rank), ")");
        }
        fail(Error(ANELLO_ERR_RENDEZVOUS, why, b));
        return;
      }
      if (transport::over_arena(transports) == 0) listen.insert({a, b});
    }
  }
  for (const int rank : listen) tell(rank, Frame{kListen, {}});
  expect(Phase::listening, std::move(listen));
}

void RendezvousRoot::handle(int rank, const Frame& frame) {
  Reader reader(frame.body);
  Member& member = seats_.at(rank).peer.member;
  const auto in = [&](Phase phase) {
    if (phase_ != phase) throw Reader::corrupt();
  };
  switch (frame.kind) {
    case kArrived: {
      in(Phase::arriving);
      const Done arrived = take_done(reader);
      if (arrived.ok) {
        auto& ranks = arrived_[peer(rank).leader];
        ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank), rank);
      } else {
        cannot_[rank] = arrived.why_not;
        log::info(-1, describe(member), " shares no memory: ", arrived.why_not);
      }
      done(rank);
      break;
    }
    case kMapped: {
      in(Phase::mapping);
      const Mapped mapped = take_mapped(reader);
      if (mapped.done.ok && mapped.index >= 0) {
        member.machine = mapped.machine;
        member.local_index = mapped.index;
      } else {
        cannot_[rank] = mapped.done.why_not;
        log::info(-1, describe(member), " shares no memory: ", mapped.done.why_not);
      }
      done(rank);
      break;
    }
    case kListening:
      in(Phase::listening);
      take_listening(reader, seats_.at(rank).peer);
      done(rank);
      break;
    case kReady:
      in(Phase::linking);
      done(rank);
      break;
    case kGiveUp: {
      const Error error = take_error(reader);
      fail(Error(error.code(), text(describe(member), " could not join: ", error.text()), rank));
      break;
    }
    default: throw Reader::corrupt();
  }
}

void RendezvousRoot::finish() {
  phase_ = Phase::over;
  const auto self = shared_from_this();
  // This comes first: a rank that has met knows that this place is gone.
  close();
  for (int rank = 0; rank < size_; ++rank) tell(rank, Frame{kGo, {}});
  seats_.clear();
}

void RendezvousRoot::fail(const Error& error) {
  if (failure_ || phase_ == Phase::over) return;
  failure_ = error;
  phase_ = Phase::over;
  Writer writer;
  put_error(writer, error);
  const Frame refuse = writer.frame(kRefuse);
  for (const auto& [rank, seat] : seats_) seat.link->send(refuse);
  changed_.notify();
  const bool all_reported = size_ != 0 && static_cast<int>(seats_.size()) >= size_;
  seats_.clear();
  if (all_reported) {
    close();
    return;
  }
  // Ranks that arrive later also get it.
  struct Linger {
    static Task<> on(std::shared_ptr<RendezvousRoot> self) {
      co_await sleep_ms(self->hold_->io(), kLingerMs);
      self->close();
    }
  };
  hold_->spawn("rendezvous", Linger::on(shared_from_this()));
}

}  // namespace anello::bootstrap
