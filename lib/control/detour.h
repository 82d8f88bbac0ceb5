#pragma once
// Delivers a rank's messages to a communicator if the lowest rank does not forward them. After each frame, the rank
// asks the lowest rank to confirm that it has forwarded everything before. If there is no confirmation (that rank is
// stopped, or its host unreachable), the rank sends the frame to each of the communicator's ranks itself, on a
// connection for that one frame and its answer. For an end, the lowest rank comes first, and ranks that have been told
// need not send it again. Service thread only.
#include "control/dial.h"
#include "control/wire.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace anello::control {

class Agent;
class Link;

class Detour {
 public:
  explicit Detour(Agent& agent) : agent_(agent) {}

  // To these ranks, or to more.
  void send(const Frame& frame, const std::vector<int>& ranks);
  // Sends directly from the start, without any other rank.
  void send_directly(const Frame& frame, const std::vector<int>& ranks);
  // Asks for confirmation of everything that this rank has sent so far.
  void ask_for_word(Link& parent);
  void word_from_parent(Reader& reader);
  // Whether all ranks that this rank told of a communicator's end have received it, or the parent has confirmed it.
  // Otherwise this rank may not leave yet.
  bool settled() const;
  void adopt(int from, std::shared_ptr<Stream> stream);

 private:
  struct Round {
    Frame frame;
    std::uint64_t number = 0;
    std::deque<int> ranks;  // still to be told
    std::size_t workers = 0;
  };
  static Task<> retry_until_answered(std::weak_ptr<Agent> agent, Frame frame, std::vector<int> ranks,
                                     std::uint64_t number, std::int64_t patience_ms);
  void begin(const std::shared_ptr<Round>& round);
  static Task<> go_round(std::shared_ptr<Agent> agent, std::shared_ptr<Round> round);
  static Task<> tell(std::shared_ptr<Agent> agent, int rank, Frame frame);
  static Task<> hear(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);
  bool passed_on(std::uint64_t number) const;
  std::int64_t patience_ms() const;

  Agent& agent_;
  std::uint64_t said_ = 0;      // all frames so far
  std::uint64_t passed_ = 0;    // the frames that a parent has confirmed
  std::uint64_t last_end_ = 0;  // the last frame about an end
  std::uint64_t told_ = 0;      // this rank itself has delivered the frames up to this one
  // The time when another rank reported a communicator's end: it tells all ranks, and this rank need not do so.
  std::map<std::uint64_t, std::int64_t> heard_;
  std::int64_t silent_since_ns_ = 0;  // the parent has owed a confirmation since then; 0: it owes none
};

}  // namespace anello::control
