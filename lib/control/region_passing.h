#pragma once
// Memory that ranks of this host have made for each other (memory/region.h): the descriptor of the owner's pool, and
// the range of it. Every rank keeps one connection, made when first needed, to the lowest rank of the host. That rank
// forwards questions to the owner and answers to all ranks that asked, so there are only as many connections as ranks.
// If the lowest rank does not answer, the question goes through the next one. Service thread only.
#include "control/stream.h"
#include "memory/pool.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace anello::control {

class Agent;

class RegionPassing {
 public:
  explicit RegionPassing(Agent& agent) : agent_(agent) {}

  // Answered by Event::region.
  void request(int peer, std::uint64_t region);
  void adopt(int from, std::shared_ptr<Stream> stream);
  void close();

 private:
  enum class Kind : std::uint32_t { wanted = 1, here = 2, gone = 3 };
  // The messages on a connection; after `here` comes a byte with the descriptor. The rank that maps the range checks
  // it.
  struct Message {
    Kind kind;
    std::int32_t owner;
    std::uint64_t region;
    std::uint64_t offset = 0;  // of `here`
    std::uint64_t bytes = 0;
  };
  static_assert(sizeof(Message) == 32);
  using Memory = std::shared_ptr<const memory::PassedRange>;
  struct Line {
    std::shared_ptr<Stream> stream;  // null: not connected yet
    std::deque<std::pair<Message, Memory>> queued;
    bool draining = false;
  };
  // Questions in flight, from this rank and from others that use it as their path.
  struct Question {
    int owner = -1;
    int via = -1;
    int tries = 0;
    std::vector<int> askers;
    std::int64_t next_ns = 0;  // when it takes another path
    std::int64_t until_ns = 0;
  };

  void ask(int asker, int owner, std::uint64_t region);
  void send_on(std::uint64_t region, Question& question);
  // The tries-th rank, counted from the lowest, which forwards this rank's questions; if that is this rank, the owner
  // itself.
  int way_to(int owner, int tries) const;
  void answer(std::uint64_t region, const Memory& memory, const std::string& why);
  void deliver(std::uint64_t region, const Question& question, const Memory& memory, const std::string& why);
  void send_answer(int to, int owner, std::uint64_t region, const Memory& memory);
  void tell(int to, const Message& message, Memory memory = nullptr);
  bool is_local(int rank) const;
  void line_ended(int to, const std::shared_ptr<Stream>& stream, const std::string& why);
  static Task<> drain(std::shared_ptr<Agent> agent, int to);
  static Task<> read(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);
  void receive(int from, const Message& message, UniqueFd memory);
  static Task<> retry_until_answered(std::weak_ptr<Agent> agent);

  Agent& agent_;
  std::map<int, Line> lines_;                    // by rank
  std::map<std::uint64_t, Question> questions_;  // by region
  bool looks_after_ = false;
};

}  // namespace anello::control
