#include "model/player.h"

#include "model/strand_player.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

namespace anello::model {

void play(const Program& program, int job_rank, anello_comm_t world, int timeout_ms) {
  const auto found = std::find(program.order.begin(), program.order.end(), job_rank);
  const int rank = found == program.order.end() ? -1 : int(found - program.order.begin());
  anello_comm_t base = ANELLO_COMM_NULL;
  need_ok(anello_comm_split(world, rank < 0 ? ANELLO_UNDEFINED : 0, rank, &base), "the split of the job", world);
  if (rank < 0) return;
  std::vector<anello_comm_t> comms(program.comms.size(), ANELLO_COMM_NULL);
  for (std::size_t k = 0; k < program.strands.size(); ++k)
    need_ok(anello_comm_dup(base, &comms[k]), "the dup for a thread", base);
  std::mutex mutex;
  std::optional<Wrong> first;
  const auto strand = [&](std::size_t k) {
    try {
      StrandPlayer(program, rank, k, comms, timeout_ms).play();
    } catch (const Wrong& wrong) {
      const std::lock_guard held(mutex);
      if (!first) first.emplace("rank " + std::to_string(rank) + ", " + wrong.what());
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t k = 1; k < program.strands.size(); ++k) {
    if (program.one_after_another) {
      strand(k);
    } else {
      threads.emplace_back(strand, k);
    }
  }
  strand(0);
  for (std::thread& thread : threads) thread.join();
  if (first) throw Wrong(*first);
  for (const anello_comm_t comm : comms) need_ok(anello_comm_destroy(comm), "destroy", ANELLO_COMM_NULL);
  need_ok(anello_comm_destroy(base), "destroy", ANELLO_COMM_NULL);
}

}  // namespace anello::model
