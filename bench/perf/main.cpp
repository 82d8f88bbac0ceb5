// anello-perf: measures and verifies the collectives, as one rank of a job or with all ranks as threads.
#include "perf/failure.h"
#include "perf/options.h"
#include "perf/rank.h"
#include "shared/complaint.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace perf;

// Also ends the other ranks' calls: if a rank left silently, they would wait.
int guarded(const Options& options, anello_comm_t comm) {
  try {
    return run_rank(options, comm);
  } catch (const std::exception& failure) {
    const std::string why = shared::complaint(failure);
    std::fprintf(stderr, "anello-perf: %s\n", why.c_str());
    anello_comm_abort(comm, why.c_str());
    return kExitFailure;
  }
}

int run_process(const Options& options) {
  anello_comm_t comm = ANELLO_COMM_NULL;
  check(anello_comm_create(nullptr, &comm), "anello_comm_create", ANELLO_COMM_NULL);
  const int code = guarded(options, comm);
  const anello_result_t ended = anello_comm_destroy(comm);
  return code == 0 && ended != ANELLO_OK ? kExitFailure : code;
}

int run_threads(const Options& options) {
  std::vector<anello_comm_t> comms(static_cast<std::size_t>(options.thread_count), ANELLO_COMM_NULL);
  check(anello_comm_create_all(options.thread_count, comms.data()), "anello_comm_create_all", ANELLO_COMM_NULL);
  std::atomic<int> worst{0};
  {
    std::vector<std::jthread> ranks;
    for (anello_comm_t comm : comms) {
      ranks.emplace_back([&options, &worst, comm] {
        int code = guarded(options, comm);
        if (anello_comm_destroy(comm) != ANELLO_OK && code == 0) code = kExitFailure;
        int known = worst.load();
        while (code > known && !worst.compare_exchange_weak(known, code)) {
        }
      });
    }
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int exit_code = 0;
  if (!parse(argc, argv, options, exit_code)) return exit_code;
  try {
    return options.threads ? run_threads(options) : run_process(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "anello-perf: %s\n", shared::complaint(failure).c_str());
    return kExitFailure;
  }
}
