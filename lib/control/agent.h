#pragma once
// The service thread's side of one rank: the ranks that are still here, and the components that work for it. Everything
// in it runs on the service thread; coroutines that work for an agent hold it by shared pointer.
#include "control/call_comparison.h"
#include "control/control_tree.h"
#include "control/deaths.h"
#include "control/detour.h"
#include "control/dial.h"
#include "control/door.h"
#include "control/heartbeat.h"
#include "control/lanes.h"
#include "control/local_group.h"
#include "control/mailbox.h"
#include "control/peer.h"
#include "control/region_passing.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anello::control {

// Frames on control links. Their numbers are part of the protocol.
enum ControlKind : std::uint16_t {
  kGoodbye = 32,  // rank: it left, orderly
  kLost = 33,     // rank, error: it is dead or unreachable
  kAsk = 34,      // compare calls
  kAnswer = 35,
  kFailed = 36,    // a communicator has failed
  kPassOn = 37,    // number: confirm once everything before this has been forwarded
  kPassedOn = 38,  // number
  kBeat = 39,      // 1: answer this; 0: the answer
  kLife = 40,      // Life, count, ranks: whether they run
  kSilent = 41,    // count, ranks, why: lost, because they are silent
};

class Agent : public std::enable_shared_from_this<Agent> {
 public:
  enum class Standing { here, left, lost };

  Agent(Service& service, int rank, int size, std::int64_t timeout_ms);

  Service& service() { return service_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  std::int64_t timeout_ms() const { return timeout_ms_; }
  Mailbox& mailbox() { return mailbox_; }
  ControlTree& tree() { return tree_; }
  Lanes& lanes() { return lanes_; }
  RegionPassing& regions() { return regions_; }
  CallComparison& calls() { return calls_; }
  Detour& detour() { return detour_; }
  Heartbeat& heartbeat() { return heartbeat_; }
  const Heartbeat& heartbeat() const { return heartbeat_; }

  // -- Creation ------------------------------------------------------------------------------------------------
  // The address at which ranks of this host reach this one. Throws Error.
  Address open_listener();
  // From now on, connections of the job to this rank are admitted.
  void open_room(const JobId& job, const Key& key);
  std::function<void(Visitor)> on_arena;  // the rank that gathers the host's ranks
  // All ranks are known: peers by rank, the arena if this rank is in one, the TCP listener if any rank needs it,
  // and those of the rails.
  void settle(std::vector<Peer> peers, std::shared_ptr<LocalGroup> group, std::shared_ptr<Listener> tcp,
              std::vector<std::shared_ptr<Listener>> rails);
  Call call_to(int peer, Purpose purpose, std::vector<Address> addresses, Deadline deadline);

  // -- Life ----------------------------------------------------------------------------------------------------
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  const std::vector<Peer>& peers() const { return peers_; }
  const std::shared_ptr<LocalGroup>& group() const { return group_; }
  Standing standing(int rank) const { return standing_[static_cast<std::size_t>(rank)]; }
  bool here(int rank) const { return standing(rank) == Standing::here; }
  int lowest_here() const;
  std::string who(int rank) const;  // for people; also before all ranks are known
  bool watched(int rank) const;     // this rank sees its end without a connection to it
  // Both are on one kernel, so its existence does not depend on a network.
  bool same_host(int rank) const;
  std::vector<int> here_of_process(std::uint64_t process) const;
  // The rank has ended: it left if it said so in the arena, otherwise it is lost. how: "its process has ended".
  void peer_gone(int rank, const std::string& how);
  // The end is reported after all messages of the rank, which may still be arriving, because it also came last there.
  void read_rest(int rank, std::function<bool()> more, std::function<void()> then);
  void peer_left(int rank, int reported_by);
  void peer_lost(int rank, Error error, int reported_by);
  // These ranks are lost because they are silent. This rank does not wait for their earlier messages, and tells them in
  // case they can hear it.
  void report_silent(const std::vector<int>& ranks, const std::string& how, int reported_by);
  static Frame lost_by_silence(const std::vector<int>& ranks, const std::string& how);
  // The listener of that rank's host does not know the rank.
  void not_there(int rank, const Unknown& over);
  // Handles a frame from a neighbour in the tree. Throws Error if the frame is impossible.
  void receive(int from, const Frame& frame);

  bool leaving() const { return leaving_; }
  // The link to a rank has closed. Returns true if this is its answer to this rank's goodbye.
  bool has_goodbye(int by);
  // Says goodbye on all links, closes everything, then calls done.
  static Task<> leave(std::shared_ptr<Agent> self, std::function<void()> done);

 private:
  void enter(Visitor visitor);
  void watch_deaths();
  void process_ended(int rank);
  bool announced_leaving(int rank) const;
  void take_leave(int rank, const std::string& how);
  std::function<bool()> more_but_for(int from, int rank);
  static Task<> read_rest_of_link(std::shared_ptr<Agent> self, int rank, std::function<bool()> more,
                                  std::function<void()> then);
  void take_silence_report(int from, Reader& reader);

  Service& service_;
  const int rank_;
  const int size_;
  const std::int64_t timeout_ms_;
  Mailbox mailbox_;
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<Listener> tcp_;
  std::vector<std::shared_ptr<Listener>> rails_;
  JobId job_{};
  Key key_;
  bool has_room_ = false;
  std::vector<Peer> peers_;
  std::vector<Standing> standing_;
  std::shared_ptr<LocalGroup> group_;
  std::shared_ptr<DeathWatch> watch_;
  ControlTree tree_;
  Lanes lanes_;
  RegionPassing regions_;
  CallComparison calls_;
  Detour detour_;
  Heartbeat heartbeat_;
  bool leaving_ = false;
  int goodbye_to_ = -1;  // the parent that got the goodbye and has not answered
};

}  // namespace anello::control
