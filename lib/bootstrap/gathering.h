#pragma once
// Forms the arena of one host: its ranks connect to the lowest of them over authenticated Unix connections, each with
// its wake-up descriptor. The lowest rank makes the memory and sends it to the others with all descriptors. Service
// thread only.
#include "base/clock.h"
#include "control/agent.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace anello::bootstrap {

struct ArenaSeat {
  std::shared_ptr<control::LocalGroup> group;
  int index = -1;
};

// The lowest rank's part.
class GatheringLeader : public std::enable_shared_from_this<GatheringLeader> {
 public:
  explicit GatheringLeader(control::Service& service) : service_(service), changed_(service.io()) {}
  void enter(control::Visitor visitor);
  // ranks: those that have arrived, including this one, ascending. Throws Error.
  static control::Task<ArenaSeat> form(std::shared_ptr<GatheringLeader> self, std::shared_ptr<control::Agent> agent,
                                       std::vector<int> ranks, std::uint64_t own_process, Deadline deadline);

 private:
  struct Guest {
    std::shared_ptr<control::Stream> stream;
    std::uint64_t process = 0;
    UniqueFd wake;
    UniqueFd death;
  };
  static control::Task<> receive(std::shared_ptr<GatheringLeader> self, control::Visitor visitor);
  control::Service& service_;
  control::Notice changed_;
  std::map<int, Guest> guests_;
};

// Another rank's part. arrive connects to the leader and sends the wake-up descriptor. Throws Error.
control::Task<std::shared_ptr<control::Stream>> arrive(std::shared_ptr<control::Agent> agent, int leader,
                                                       control::Address address, std::uint64_t process,
                                                       Deadline deadline);
// Then waits for the memory and maps it. Throws Error.
control::Task<ArenaSeat> take_seat(std::shared_ptr<control::Stream> leader, Deadline deadline);

}  // namespace anello::bootstrap
