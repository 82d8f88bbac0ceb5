// What ranks do at the meeting place once all have come, phase by phase.
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/rendezvous_root.h"
#include "bootstrap/rendezvous_wire.h"
#include "transports/registry.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace anello::bootstrap {
namespace {

using namespace control;

constexpr std::size_t kPeersBytes = 32 * 1024;

}  // namespace

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

}  // namespace anello::bootstrap
