/* Windows between processes of one host: ends with 1 and says what was wrong. Start it with anellorun. */
#include <anello/anello.h>

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
    ok(anello_window_free(&private_memory), comm);
    ok(anello_window_free(&inside), comm);
    ok(anello_window_free(&whole), comm);
    free(allocated);
  }
  ok(anello_comm_destroy(comm), ANELLO_COMM_NULL);
  return wrong;
}
