// Measures the cost of a waiting rank: rank 0 is SECONDS late at a barrier, and every rank prints, as a line of JSON,
// how long it was in the barrier and how much processor time its process (all threads) used meanwhile. idle.py runs it.
#include <anello/anello.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

double used_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double now_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

int fail(const char* what, anello_comm_t comm) {
  std::fprintf(stderr, "%s: %s\n", what, anello_last_error(comm));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const double late = argc > 1 ? std::atof(argv[1]) : 10;
  anello_comm_t comm = ANELLO_COMM_NULL;
  int rank = 0;
  if (anello_comm_create(nullptr, &comm) != ANELLO_OK) return fail("anello_comm_create", ANELLO_COMM_NULL);
  if (anello_comm_rank(comm, &rank) != ANELLO_OK) return fail("anello_comm_rank", comm);
  // The first barrier connects the ranks, so its cost is not that of waiting.
  if (anello_barrier(comm) != ANELLO_OK) return fail("anello_barrier", comm);
  const double begin = now_seconds();
  const double used = used_seconds();
  if (rank == 0) usleep(static_cast<useconds_t>(late * 1e6));
  if (anello_barrier(comm) != ANELLO_OK) return fail("anello_barrier", comm);
  const double waited = now_seconds() - begin;
  std::printf("{\"rank\": %d, \"waited_s\": %.3f, \"cpu_s\": %.6f}\n", rank, waited, used_seconds() - used);
  std::fflush(stdout);
  return anello_comm_destroy(comm) == ANELLO_OK ? 0 : 1;
}
