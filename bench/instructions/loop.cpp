// One rank of two that make CALLS all-reduces of BYTES, or send messages, for instructions.py: rank 0 is counted. It
// starts each call when the other rank is already there, or has sent, which that rank reports in FILE: so no counted
// instruction waits.
#include <anello/anello.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

enum class What { allreduce, post, send, recv, sendrecv };

// Rank 0 makes the call, and rank 1 its other half.
anello_result_t call(What what, int rank, void* buffer, size_t bytes, anello_comm_t comm) {
  const size_t count = bytes / sizeof(float);
  if (what == What::sendrecv) {
    static float received[1024];
    return anello_sendrecv(buffer, count, 1 - rank, 0, received, count, 1 - rank, 0, ANELLO_FLOAT32, comm, nullptr);
  }
  if (what == What::post) {
    anello_call_t all = ANELLO_CALL_INITIALIZER;
    all.kind = ANELLO_ALLREDUCE;
    all.dtype = ANELLO_FLOAT32;
    all.sendbuf = ANELLO_IN_PLACE;
    all.recvbuf = buffer;
    all.count = count;
    return anello_post(comm, &all, nullptr);
  }
  if (what == What::allreduce)
    return anello_allreduce(ANELLO_IN_PLACE, buffer, count, ANELLO_FLOAT32, ANELLO_SUM, comm);
  return (what == What::send) == (rank == 0) ? anello_send(buffer, count, ANELLO_FLOAT32, 1 - rank, 0, comm)
                                             : anello_recv(buffer, count, ANELLO_FLOAT32, 1 - rank, 0, comm, nullptr);
}

int fail(const char* what, anello_comm_t comm) {
  std::fprintf(stderr, "%s: %s\n", what, anello_last_error(comm));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s BYTES CALLS malloc|mapped FILE allreduce|post|send|recv|sendrecv\n", argv[0]);
    return 2;
  }
  const std::string name = argv[5];
  const What what = name == "send"       ? What::send
                    : name == "recv"     ? What::recv
                    : name == "sendrecv" ? What::sendrecv
                    : name == "post"     ? What::post
                                         : What::allreduce;
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
  void* const shared =
      file < 0 ? MAP_FAILED : mmap(nullptr, 2 * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) {
    std::perror(argv[4]);
    return 1;
  }
  auto& arrived = static_cast<std::atomic<int>*>(shared)[0];
  auto& done = static_cast<std::atomic<int>*>(shared)[1];  // by rank 0, so that a rank that only sends does not run
                                                           // ahead
  for (int i = 1; i <= calls; ++i) {
    if (rank != 0 && what != What::recv) arrived.store(i);
    while (rank == 0 && arrived.load() < i) usleep(20);
    if (rank == 0) usleep(100);
    if (call(what, rank, buffer, bytes, comm) != ANELLO_OK) return fail(argv[5], comm);
    if (rank != 0 && what == What::recv) arrived.store(i);
    if (rank == 0) done.store(i);
    while (rank != 0 && done.load() < i) usleep(20);
  }
  return anello_comm_destroy(comm) == ANELLO_OK ? 0 : fail("anello_comm_destroy", comm);
}
