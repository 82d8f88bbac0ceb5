// One rank of two that make CALLS all-reduces of BYTES, for instructions.py. The rank that is counted comes to each of them
// when the other is there already, which that says in FILE: none of what is counted is waiting.
#include <anello/anello.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

int fail(const char* what, anello_comm_t comm) {
  std::fprintf(stderr, "%s: %s\n", what, anello_last_error(comm));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s BYTES CALLS malloc|mapped FILE\n", argv[0]);
    return 2;
  }
  const auto bytes = static_cast<size_t>(std::atoll(argv[1]));
  const int calls = std::atoi(argv[2]);
  anello_comm_t comm = ANELLO_COMM_NULL;
  int rank = 0;
  if (anello_comm_create(nullptr, &comm) != ANELLO_OK) return fail("anello_comm_create", ANELLO_COMM_NULL);
  if (anello_comm_rank(comm, &rank) != ANELLO_OK) return fail("anello_comm_rank", comm);
  void* buffer = nullptr;
  if (std::strcmp(argv[3], "mapped") != 0) {
    buffer = std::calloc(1, bytes);
  } else if (anello_mem_alloc(bytes, &buffer) != ANELLO_OK) {
    return fail("anello_mem_alloc", ANELLO_COMM_NULL);
  }
  const int file = open(argv[4], O_RDWR);
  void* const shared = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) {
    std::perror(argv[4]);
    return 1;
  }
  auto& arrived = *static_cast<std::atomic<int>*>(shared);
  for (int i = 1; i <= calls; ++i) {
    if (rank != 0) arrived.store(i);
    while (rank == 0 && arrived.load() < i) usleep(20);
    if (rank == 0) usleep(100);
    if (anello_allreduce(ANELLO_IN_PLACE, buffer, bytes / sizeof(float), ANELLO_FLOAT32, ANELLO_SUM, comm) != ANELLO_OK) {
      return fail("anello_allreduce", comm);
    }
  }
  return anello_comm_destroy(comm) == ANELLO_OK ? 0 : fail("anello_comm_destroy", comm);
}
