#pragma once
// The meeting place: it waits for all ranks of one creation, sends them each other's data, and leads them through the
// steps of rendezvous_wire.h. It has the same result for all of them. Service thread only, except open.
#include "bootstrap/meeting.h"
#include "control/door.h"
#include "control/link.h"
#include "control/peer.h"

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace anello::bootstrap {

class RendezvousRoot : public std::enable_shared_from_this<RendezvousRoot> {
 public:
  RendezvousRoot(control::ServiceHold hold, Meeting meeting);

  // Listens; it then lives until its ranks have met or it has failed. False: another process has the host's name (then
  // that process is the meeting place, or will report an error). Throws Error.
  bool open();
  // The TCP address that the kernel chose; empty: none.
  control::Address tcp_address() const;

 private:
  struct Seat {
    std::shared_ptr<control::Link> link;
    control::Peer peer;
    int size = 0;
    bool leader_formed = false;
  };
  enum class Phase { gathering, arriving, mapping, listening, linking, over };

  void enter(control::Visitor visitor);
  static control::Task<> serve(std::shared_ptr<RendezvousRoot> self, std::shared_ptr<control::Link> link, int claimed);
  static control::Task<> watch_deadline(std::shared_ptr<RendezvousRoot> self);
  std::uint64_t reach_of(const control::Link& link, std::uint64_t said) const;
  void seat(int rank, Seat seat);
  void handle(int rank, const control::Frame& frame);
  void expect(Phase phase, std::set<int> ranks);
  void done(int rank);
  void advance();
  void group();
  void form();
  void settle_arenas();
  void finish();
  void tell_peers();
  void tell(int rank, const control::Frame& frame);
  void fail(const Error& error);
  void close();
  std::vector<int> not_seated() const;
  Error missing() const;
  int ended_without_coming() const;  // a rank; -1: none
  const control::Peer& peer(int rank) const { return seats_.at(rank).peer; }

  control::ServiceHold hold_;
  Meeting meeting_;
  const std::uint64_t own_reach_;
  std::vector<std::shared_ptr<control::Listener>> listeners_;
  bool open_ = false;
  int size_ = 0;  // 0: no rank has arrived yet
  Phase phase_ = Phase::gathering;
  std::map<int, Seat> seats_;
  std::set<int> expected_;
  std::map<int, std::vector<int>> arrived_;  // by leader
  std::map<int, std::string> cannot_;        // why a rank is in no arena
  control::Shared shared_;
  Error failure_;
  std::int64_t deadline_ns_ = 0;
  std::int64_t allowed_ms_ = 0;
  control::Notice changed_;
};

}  // namespace anello::bootstrap
