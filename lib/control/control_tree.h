#pragma once
// The control links of a job: every rank keeps one to the lowest rank that is still here, which passes on what it
// hears. When that one leaves or dies, all go to the next. A link that closes without a goodbye is how ranks of other
// hosts see a death. Service thread only.
#include "base/clock.h"
#include "control/dial.h"
#include "control/link.h"

#include <deque>
#include <map>
#include <memory>

namespace anello::control {

class Agent;

class ControlTree {
 public:
  explicit ControlTree(Agent& agent) : agent_(agent) {}

  // Links to the lowest rank, and keeps doing so. Throws Error if the first link does not come about.
  static Task<> climb(std::shared_ptr<Agent> agent, Deadline deadline);
  // A rank for which this one is the lowest.
  void adopt(int from, std::shared_ptr<Stream> stream);

  // To all neighbours but one; kept for later while there is no way up.
  void send(const Frame& frame, int except = -1);
  void send_to(int rank, const Frame& frame);
  Link* link_to(int rank);  // nullptr: it is no neighbour, or not now
  void forget(int rank);    // it is gone
  // Whether what the rank has said may not all have been read. ended: its process has, so that nothing more comes.
  bool has_more_from(int rank, bool ended);
  void let_go(int rank);  // the same, once it was sent what is queued for it, if that goes at all
  // There are ranks that see the end of this one by nothing but its goodbye.
  bool needed() const;
  // A goodbye said now reaches all who could only learn of it by a link.
  bool settled() const;

  // All that was sent is with those who need it: they have read to the end of their links and closed them. A link that
  // is closed earlier, with something in it unread, takes along what the peer has not read yet.
  Task<> finished(std::int64_t ms);
  void close();

 private:
  static Task<> keep_parent(std::shared_ptr<Agent> agent, int parent);
  static Task<> read(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Link> link);
  static Task<> serve(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Link> link);
  static Task<> close_soon(std::shared_ptr<Link> link);
  void look_for_orphans();
  static Task<> look_for(std::weak_ptr<Agent> agent, Call probe, int rank);
  std::shared_ptr<Link> link_up(int parent, std::shared_ptr<Stream> stream);
  void repeat_recent(Link& link, bool own) const;
  void tell_who_is_gone(Link& link) const;

  Agent& agent_;
  std::map<int, std::shared_ptr<Link>> links_;  // by rank
  bool parentless_ = false;                     // between two parents
  std::deque<Frame> unsent_;                    // for the next parent
  struct Recent {
    std::int64_t at_ns;
    Frame frame;
    bool own;
  };
  // What a rank between two parents may have missed; and, of this rank's own, what a parent that died may not have
  // passed on.
  std::deque<Recent> recent_;
};

}  // namespace anello::control
