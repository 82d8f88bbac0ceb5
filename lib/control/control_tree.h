#pragma once
// The control links of a job: every rank keeps one to the lowest rank that is still here, which forwards the messages
// that it receives. When that rank leaves or dies, all link to the next one. Ranks of other hosts see a death as a link
// that closes without a goodbye. Service thread only.
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

  // Links to the lowest rank, and links again whenever it changes. Throws Error if the first link fails.
  static Task<> climb(std::shared_ptr<Agent> agent, Deadline deadline);
  // Adds the link of a rank for which this one is the lowest.
  void adopt(int from, std::shared_ptr<Stream> stream);

  // Sends to all neighbours except one; keeps the frame while there is no parent.
  void send(const Frame& frame, int except = -1);
  void send_to(int rank, const Frame& frame);
  Link* link_to(int rank);  // nullptr: it is not a neighbour now
  void forget(int rank);    // it is gone
  // Whether some messages of the rank may still be unread. ended: its process has ended, so no more will come.
  bool has_more_from(int rank, bool ended);
  void let_go(int rank);  // closes after sending the queued frames, if they can be sent
  // Some ranks learn of this rank's end only by its goodbye.
  bool needed() const;
  // A goodbye sent now reaches all ranks that could only learn of it by a link.
  bool settled() const;

  // All sent frames have arrived: their receivers have read to the end of their links and closed them. If a link is
  // closed earlier with unread data in it, the frames that the peer has not read yet are lost.
  Task<> finished(std::int64_t ms);
  void close();

 private:
  static Task<> keep_parent(std::shared_ptr<Agent> agent, int parent);
  static Task<> read(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Link> link);
  static Task<> serve(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Link> link);
  static Task<> close_soon(std::shared_ptr<Link> link);
  void find_orphans();
  static Task<> call_orphan(std::weak_ptr<Agent> agent, Call probe, int rank);
  std::shared_ptr<Link> link_up(int parent, std::shared_ptr<Stream> stream);
  void repeat_recent(Link& link, bool own) const;
  void report_gone(Link& link) const;

  Agent& agent_;
  std::map<int, std::shared_ptr<Link>> links_;  // by rank
  bool parentless_ = false;                     // between two parents
  std::deque<Frame> unsent_;                    // for the next parent
  struct Recent {
    std::int64_t at_ns;
    Frame frame;
    bool own;
  };
  // Messages that a rank between two parents may have missed and, of this rank's own messages, those that a dead parent
  // may not have forwarded.
  std::deque<Recent> recent_;
};

}  // namespace anello::control
