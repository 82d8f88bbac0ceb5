#include "bootstrap/rendezvous_root.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/rendezvous_wire.h"
#include "control/host.h"

#include <algorithm>
#include <cstring>

namespace anello::bootstrap {
namespace {

using namespace control;

constexpr std::int64_t kHelloMs = 10'000;
constexpr std::int64_t kTellPart = 30;  // of the allowed time, until the log gives a reason why ranks are missing
constexpr std::int64_t kLookForEndedMs = 100;
constexpr std::int64_t kLingerMs = 5'000;  // after a failure, to report it to late ranks

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
