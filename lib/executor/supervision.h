#pragma once
// What ends operations that cannot succeed: deadlines, ranks that are gone, and ranks that have made another call.
// Requires the rank's lock.
#include "executor/group.h"
#include "executor/parts.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace anello::executor {

class Supervision {
 public:
  explicit Supervision(Parts& parts);

  // ---- Deadlines ----
  // Looks at the clock for all of it, and at the deadlines of what a thread waits for (some may be null); called by
  // those who have nothing better to do, and now and then by all who drive.
  using Watched = std::span<Operation* const>;
  void tick(Watched watched);
  // Of all that is under way, for a rank that never waits; at most every so often.
  void tick_all();

  // ---- Ranks that have made another call (mismatch.cpp) ----
  // Ranks seem to have made different calls: the service threads compare their records. peer: whose call it is that
  // differs from this rank's, where that is certain.
  void suspect(Group& group, std::uint32_t sequence, int peer = -1);
  // In this rank's next exchange, or one whose lines it had no need of, is a line of another call.
  void suspect_lines(Group& group, const Operation& waiting);
  // Lines that this rank had no need of may have come by now.
  void look_behind(Group& group);
  // What came before this rank had come to its call.
  void look_at_early(Group& group);

  // ---- Ranks that are gone (gone.cpp) ----
  // Something has moved, or was posted, or a thread begins to drive: those that are gone are looked for again.
  void look_again() { gone_look_due_ = true; }
  // After a move. moved: something did.
  void look_after_move(bool moved);
  // Operations that wait for a rank that will send no more end now, not at their deadline. quiet: all that had come has
  // just been taken in.
  void check_gone(bool quiet);
  void lane_broke(Route& route);
  // Of the group, in rising order: those that control knows to be lost by now; those whose process or host does not
  // run.
  std::vector<int> lost_ranks(const Group& group) const;
  std::vector<int> suspected_ranks(const Group& group) const;

 private:
  void compare_if_still(Group& group, std::int64_t now);
  void look_for_end(Group& group, std::int64_t now);
  void check_deadline(Operation& watched);
  std::string describe_now(int world) const;
  std::string waits_for(const Operation& operation) const;
  std::string who_is_absent(const Operation& operation) const;

  void check_gone(Group& group, bool quiet);
  void end_what_waits_for(Group& group, int peer, const std::string& how);
  bool is_gone(const Group& group, int peer, std::string& how) const;
  int first_lost(const Group& group) const;
  bool waits_in_vain(const Operation& operation, int peer) const;

  Parts& parts_;
  control::Job& job_;
  Routes& routes_;
  health::PeerFates& fates_;
  Outcomes& outcomes_;
  const int sharing_;
  std::int64_t next_tick_ns_ = 0;
  bool gone_look_due_ = false;  // something has moved, or was posted, since peers that are gone were last looked for
};

}  // namespace anello::executor
