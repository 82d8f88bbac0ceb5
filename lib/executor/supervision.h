#pragma once
// Ends operations that cannot succeed, because of deadlines, gone ranks, or ranks that have made another call. Requires
// the rank's lock.
#include "control/job.h"
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
  // Reads the clock for the rank, and checks the deadlines of the operations that a thread waits for (some may be
  // null). Idle threads call this, and all driving threads now and then.
  using Watched = std::span<Operation* const>;
  void tick(Watched watched);
  // Checks the deadlines of all operations in flight, for a rank that never waits; limits its own frequency.
  void tick_all();

  // Shows in the record what the group's oldest collective waits for.
  void show_waits(Group& group, control::Job::Look look) const;

  // ---- Ranks that have made another call (mismatch.cpp) ----
  // Ranks seem to have made different calls: the service threads compare their records. peer: the rank whose call
  // differs from this rank's, if that is certain.
  void suspect(Group& group, std::uint32_t sequence, int peer = -1);
  // This rank's next exchange, or one whose lines it did not need, has a line of another call.
  void suspect_lines(Group& group, const Operation& waiting);
  // Looks at lines that this rank did not need and that may have come by now.
  void check_lines_behind(Group& group);
  // Looks at frames that came before this rank had entered their call.
  void check_early_frames(Group& group);

  // ---- Gone ranks (gone.cpp) ----
  // Something has moved or was posted, or a thread begins to drive: gone ranks are to be looked for again.
  void request_gone_check() { gone_check_due_ = true; }
  // Called after a move. moved: something moved.
  void check_after_move(bool moved);
  // Ends operations that wait for a rank that will send no more, before their deadline. quiet: all that had come has
  // just been taken in.
  void check_gone(bool quiet);
  void lane_broke(Route& route);
  // The group's ranks, in rising order: those that control knows to be lost by now; those whose process or host does
  // not run.
  std::vector<int> lost_ranks(const Group& group) const;
  std::vector<int> suspected_ranks(const Group& group) const;

 private:
  void compare_if_still(Group& group, std::int64_t now);
  void check_for_end(Group& group, std::int64_t now);
  void check_deadline(Operation& watched);
  std::string describe_now(int world) const;
  // A peer that a collective waits for, and what for.
  struct Awaited {
    recorder::Waits::What what;
    int peer;
  };
  static std::vector<Awaited> awaited(const Operation& operation);
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
  bool gone_check_due_ = false;  // something has moved, or was posted, since gone peers were last looked for
};

}  // namespace anello::executor
