#pragma once
// Who waits for whom among the ranks of one job.
#include "recorder/snapshot.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace jobs {

using anello::recorder::Snapshot;

// The ranks of one communicator that show themselves, by their rank in it.
struct Members {
  std::map<int, const Snapshot*> by_rank;
  int size = 0;
  // -1: not known.
  int world_rank(int rank) const;
};

struct Edge {
  int from = -1, to = -1;  // world ranks
  std::uint64_t communicator = 0;
  std::uint32_t sequence = 0;       // of the operation that `from` is in
  const Snapshot* shown = nullptr;  // by `from`
  enum class Why { never_entered, data, room, message, receive } why = Why::data;
  anello::recorder::Waits::Life life = anello::recorder::Waits::Life::runs;  // of `to`, as `from` knows it
};

class Waiting {
 public:
  explicit Waiting(const std::vector<const Snapshot*>& of_one_job);

  const std::map<std::uint64_t, Members>& communicators() const { return communicators_; }
  const std::vector<Edge>& edges() const { return edges_; }
  bool shows(int world_rank) const { return shown_.count(world_rank) != 0; }
  // Those that are waited for, and wait for nobody.
  std::set<int> roots() const;
  // Ranks that wait for each other in a circle, in its order; empty: there is none.
  std::vector<int> circle() const;

 private:
  void add_collective(std::uint64_t communicator, const Members& members, const Snapshot& shown);
  void add_messages(std::uint64_t communicator, const Members& members, const Snapshot& shown);

  std::map<std::uint64_t, Members> communicators_;
  std::set<int> shown_;
  std::vector<Edge> edges_;
};

// Whether a comes before b; sequences wrap around.
inline bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }
// Whether the rank has made no call of that number yet.
bool has_not_come(const Snapshot& shown, std::uint32_t sequence);

}  // namespace jobs
