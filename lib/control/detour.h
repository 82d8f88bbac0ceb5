#pragma once
// What a rank says to a communicator past a lowest rank that does not pass it on. That one, asked behind each frame,
// confirms that it has passed on all before; one that does not (it is stopped, or its host away) is gone round: the
// rank says the same to each of the communicator's ranks itself, on a connection for that one frame and its answer: of
// an end the lowest first, and those whom it has told need not say the same. Service thread only.
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
  // Past any other rank from the start.
  void tell_directly(const Frame& frame, const std::vector<int>& ranks);
  // Behind all that this rank has said so far.
  void ask_for_word(Link& parent);
  void word_from_parent(Reader& reader);
  // All whom this rank told of a communicator's end have heard it, or the parent has their word. Else it may not go
  // yet.
  bool settled() const;
  void adopt(int from, std::shared_ptr<Stream> stream);

 private:
  struct Round {
    Frame frame;
    std::uint64_t number = 0;
    std::deque<int> ranks;  // still to be told
    std::size_t workers = 0;
  };
  static Task<> look_after(std::weak_ptr<Agent> agent, Frame frame, std::vector<int> ranks, std::uint64_t number,
                           std::int64_t patience_ms);
  void begin(const std::shared_ptr<Round>& round);
  static Task<> go_round(std::shared_ptr<Agent> agent, std::shared_ptr<Round> round);
  static Task<> tell(std::shared_ptr<Agent> agent, int rank, Frame frame);
  static Task<> hear(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);
  bool passed_on(std::uint64_t number) const;
  std::int64_t patience_ms() const;

  Agent& agent_;
  std::uint64_t said_ = 0;      // frames, ever
  std::uint64_t passed_ = 0;    // of them, by the word of a parent
  std::uint64_t last_end_ = 0;  // the last of them that was of an end
  std::uint64_t told_ = 0;      // up to this one by this rank itself
  // When another rank came with a communicator's end: it tells everybody, and this one need not do the same.
  std::map<std::uint64_t, std::int64_t> heard_;
  std::int64_t silent_since_ns_ = 0;  // the parent has owed its word since; 0: it owes none
};

}  // namespace anello::control
