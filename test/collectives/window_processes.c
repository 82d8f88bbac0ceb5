/* Windows between processes of one host: ends with 1 and says what was wrong. Start it with anellorun. */
#include <anello/anello.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong;

static void expect(int right, const char* what, int peer) {
  if (right) return;
  fprintf(stderr, "rank %d: %s (of rank %d)\n", rank, what, peer);
  wrong = 1;
}

static void ok(anello_result_t result, anello_comm_t comm) {
  if (result == ANELLO_OK) return;
  fprintf(stderr, "rank %d: %s: %s\n", rank, anello_result_name(result), anello_last_error(comm));
  exit(1);
}

/* Calls use the memory before, while and after it is part of a window. */
static void sum_in(void* memory, anello_comm_t comm) {
  int32_t* const numbers = memory;
  for (int i = 0; i < 2048; ++i) numbers[i] = rank + i;
  ok(anello_allreduce(ANELLO_IN_PLACE, numbers, 2048, ANELLO_INT32, ANELLO_SUM, comm), comm);
  int right = 1;
  for (int i = 0; i < 2048; ++i) right = right && numbers[i] == size * (size - 1) / 2 + size * i;
  expect(right, "a sum is wrong", rank);
}

int main(void) {
  anello_comm_t comm;
  ok(anello_comm_create(NULL, &comm), ANELLO_COMM_NULL);
  ok(anello_comm_rank(comm, &rank), comm);
  ok(anello_comm_size(comm, &size), comm);
  const char* transport = "";
  ok(anello_comm_transport(comm, (rank + 1) % size, &transport), comm);
  const int shared = strcmp(transport, "shm") == 0;

  for (int turn = 0; turn < 3; ++turn) {
    const size_t bytes = (size_t)(rank + 1) * 100003;
    void* base;
    anello_window_t whole, inside, private_memory;
    ok(anello_window_create(bytes, comm, &base, &whole), comm);
    unsigned char* own = base;
    for (size_t i = 0; i < bytes; ++i) expect(own[i] == 0, "memory is not zeroed", rank);
    memset(own, rank + turn + 1, bytes);
    ok(anello_window_register(own + 4100, 9000, comm, &inside), comm);
    void* allocated = malloc(64);
    ok(anello_window_register(allocated, 64, comm, &private_memory), comm);
    /* Any memory that others can map may be a part, and keeps being what it was. */
    void* memories[2] = {NULL, aligned_alloc(4096, 8192)};
    ok(anello_mem_alloc(8192, &memories[0]), ANELLO_COMM_NULL);
    ok(anello_register(memories[1], 8192), ANELLO_COMM_NULL);
    anello_window_t parts[2];
    for (int i = 0; i < 2; ++i) {
      sum_in(memories[i], comm);
      memset(memories[i], 10 * i + rank, 8192);
      ok(anello_window_register((char*)memories[i] + 100, 5000, comm, &parts[i]), comm);
    }
    expect(anello_mem_free(memories[0]) == ANELLO_ERR_ARGUMENT, "memory of a window was freed", rank);
    expect(anello_deregister(memories[1]) == ANELLO_ERR_ARGUMENT, "memory of a window was deregistered", rank);
    expect(anello_mem_free(base) == ANELLO_ERR_ARGUMENT, "a window's memory was freed", rank);
    ok(anello_barrier(comm), comm);
    for (int peer = 0; peer < size; ++peer) {
      void* pointer;
      size_t length;
      ok(anello_window_peer(whole, peer, &pointer, &length), comm);
      const unsigned char* theirs = pointer;
      expect(length == (size_t)(peer + 1) * 100003, "wrong size", peer);
      expect(peer == rank || (theirs != NULL) == shared, "mapped where it cannot be, or not where it can", peer);
      if (theirs != NULL) {
        expect(theirs[0] == peer + turn + 1 && theirs[length - 1] == peer + turn + 1, "wrong contents", peer);
      }
      ok(anello_window_peer(private_memory, peer, &pointer, &length), comm);
      expect((pointer != NULL) == (peer == rank), "memory of another process is reached", peer);
      for (int i = 0; i < 2; ++i) {
        ok(anello_window_peer(parts[i], peer, &pointer, &length), comm);
        expect(peer == rank || (pointer != NULL) == shared, "memory that can be mapped is not, or the other way", peer);
        if (pointer == NULL) continue;
        theirs = pointer;
        expect(theirs[0] == 10 * i + peer && theirs[4999] == 10 * i + peer, "wrong contents of known memory", peer);
      }
      ok(anello_window_peer(inside, peer, &pointer, &length), comm);
      expect(length == 9000, "wrong size of a part", peer);
      if (pointer == NULL) continue;
      theirs = pointer;
      expect(theirs[0] == peer + turn + 1 && theirs[8999] == peer + turn + 1, "wrong contents of a part", peer);
    }
    ok(anello_barrier(comm), comm);
    /* Into the next rank's part, found there after a barrier. */
    void* next;
    ok(anello_window_peer(inside, (rank + 1) % size, &next, NULL), comm);
    if (next != NULL) *(unsigned char*)next = (unsigned char)(rank + 100);
    ok(anello_barrier(comm), comm);
    if (shared) expect(own[4100] == (rank + size - 1) % size + 100, "what was written did not come", rank);
    for (int i = 0; i < 2; ++i) sum_in(memories[i], comm);
    sum_in(base, comm);
    for (int i = 0; i < 2; ++i) ok(anello_window_free(&parts[i]), comm);
    for (int i = 0; i < 2; ++i) sum_in(memories[i], comm);
    ok(anello_deregister(memories[1]), ANELLO_COMM_NULL);
    ok(anello_mem_free(memories[0]), ANELLO_COMM_NULL);
    free(memories[1]);
    ok(anello_window_free(&private_memory), comm);
    ok(anello_window_free(&inside), comm);
    ok(anello_window_free(&whole), comm);
    free(allocated);
  }
  ok(anello_comm_destroy(comm), ANELLO_COMM_NULL);
  return wrong;
}
