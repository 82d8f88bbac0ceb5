#pragma once
// Ranks as threads without Control: jobs over one anonymous arena, whose events the test itself makes. For what the
// executor does when a peer dies, leaves or disagrees, at a moment that the test chooses.
#include "control/job.h"

#include <memory>
#include <string>
#include <vector>

namespace anello::test {

class LocalJob;

// What the jobs of one test share.
class LocalJobs {
 public:
  // Of the arena: nobody's file, or one of its own, behind which there is room for staging memory.
  enum class Memory { anonymous, file };
  // transport: the bit that every pair uses.
  LocalJobs(int ranks, std::uint32_t transport, control::Shared shared = {}, Memory memory = Memory::anonymous);
  ~LocalJobs();

  std::unique_ptr<control::Job> take(int rank);
  const memory::Arena& arena(int rank) const;
  // As a rank's job does it: brings it the memory of another one under a key.
  void request_region(int rank, int peer, std::uint64_t region);
  // Every rank but `peer` hears that it is lost.
  void lose(int peer);
  void leave(int peer);
  // Calls to compare_calls and fail_communicator so far, by all ranks.
  int compared() const;
  std::vector<Error> told() const;

 private:
  friend class LocalJob;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace anello::test
