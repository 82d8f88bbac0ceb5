#pragma once
// A rank's part in the rendezvous: the left column of rendezvous_wire.h. Service thread only.
#include "base/clock.h"
#include "bootstrap/gathering.h"
#include "bootstrap/meeting.h"
#include "control/agent.h"

#include <memory>
#include <string>
#include <vector>

namespace anello::bootstrap {

class Rendezvous : public std::enable_shared_from_this<Rendezvous> {
 public:
  Rendezvous(std::shared_ptr<control::Agent> agent, Meeting meeting, control::Peer self, control::Shared shared,
             std::string interface, Deadline deadline)
      : agent_(std::move(agent)),
        meeting_(std::move(meeting)),
        self_(std::move(self)),
        shared_(std::move(shared)),
        interface_(std::move(interface)),
        deadline_(deadline) {}

  // Runs until all ranks have met; then the agent is settled. Throws Error, or control::Unknown if the place is gone.
  static control::Task<> run(std::shared_ptr<Rendezvous> self);
  const control::Shared& shared() const { return shared_; }

 private:
  static control::Task<> follow(std::shared_ptr<Rendezvous> self);
  static control::Task<> join_arena(std::shared_ptr<Rendezvous> self);
  static control::Task<> form_arena(std::shared_ptr<Rendezvous> self, std::vector<int> ranks);
  static control::Task<> climb(std::shared_ptr<Rendezvous> self);
  void hello();
  void take_peers(control::Reader& reader);
  void take_session(control::Reader& reader);
  void report_arrived(bool ok, const std::string& why);
  void report_mapped(const ArenaSeat& seat, const std::string& why);
  void give_up(const Error& error);
  void listen();

  std::shared_ptr<control::Agent> agent_;
  Meeting meeting_;
  control::Peer self_;
  control::Shared shared_;
  std::string interface_;
  Deadline deadline_;
  std::shared_ptr<control::Link> link_;
  std::shared_ptr<GatheringLeader> leader_;
  std::shared_ptr<control::Listener> tcp_;
  std::vector<std::shared_ptr<control::Listener>> rails_;
  std::vector<control::Peer> peers_;
  std::vector<control::Peer> known_;  // complete
  ArenaSeat seat_;
};

}  // namespace anello::bootstrap
