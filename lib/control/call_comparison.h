#pragma once
// Finds out whether the ranks of a communicator made the same calls: asks all of them over the control tree, compares
// their answers, and sends the result to all. Any thread may call add, remove, ranks_of and absent; the rest runs on
// the service thread.
#include "control/bodies.h"
#include "control/job.h"
#include "control/service.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace anello::control {

class Agent;

class CallComparison {
 public:
  explicit CallComparison(Agent& agent) : agent_(agent) {}

  void add(std::uint64_t id, std::vector<int> ranks, recorder::Record* record);
  void remove(std::uint64_t id);
  std::optional<std::vector<int>> ranks_of(std::uint64_t id);
  Absent absent(std::uint64_t id, std::uint32_t sequence);

  void compare(std::uint64_t id, std::uint32_t sequence, int differs);
  // Does not ask if another rank already does: with P waiting ranks this would be P x P messages.
  void look(std::uint64_t id, std::uint32_t sequence);
  // Event::failed for all of them but this rank.
  void send_to_all(std::uint64_t id, const std::vector<int>& ranks, const Error& error);
  // Handle received frames. They throw Error if a frame is impossible.
  struct Answer {
    int asker;
    Frame frame;
  };
  std::optional<Answer> asked(Reader& reader);  // nothing: not in this communicator, or not yet
  void answered(AnswerBody answer);
  void failed(Reader& reader);

 private:
  struct Communicator {
    std::vector<int> ranks;  // world ranks by rank
    recorder::Record* record = nullptr;
    std::uint32_t compared = 0;  // the sequence that `absent` is about
    Absent absent;
  };
  struct Removed {
    std::uint64_t id = 0;
    CallHistory history;
  };
  struct Question {
    std::vector<int> ranks;
    std::map<int, CallHistory> answers;  // by rank in the communicator
    std::set<int> answered;              // since the last question
    std::optional<Differing> known;
    bool concluding = false;
  };
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // communicator, sequence

  std::optional<CallHistory> own_history(std::uint64_t id, std::uint32_t sequence);
  void consider(const Key& key);
  void note_absent(const Key& key, const Question& question);
  void conclude(const Key& key);
  static Task<> conclude_soon(std::weak_ptr<Agent> agent, Key key);
  void deliver(std::uint64_t id, const Error& error);

  Agent& agent_;
  std::mutex mutex_;  // over the two below
  std::map<std::uint64_t, Communicator> communicators_;
  std::deque<Removed> removed_;  // the newest kMaxRemoved
  std::map<Key, Question> questions_;
  std::deque<Key> asked_;  // oldest first
  // The last question of another rank, by communicator.
  struct Heard {
    std::uint32_t sequence = 0;
    std::int64_t at_ns = 0;
  };
  std::map<std::uint64_t, Heard> heard_;
};

}  // namespace anello::control
