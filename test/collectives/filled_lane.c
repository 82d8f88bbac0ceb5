/* Two ranks. An event loop progresses a large send by hand for a moment, long enough to fill the lane itself, and then
 * sleeps until it hears of the completion: what is left goes on without it. Ends with 1 where it stands still. Start it
 * with anellorun -np 2. */
#define _POSIX_C_SOURCE 200809L
#include <anello/anello.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kBytes = 64 << 20, kRounds = 6, kPatienceMs = 8000 };

static anello_comm_t comm;

static void ok(anello_result_t result) {
  if (result == ANELLO_OK) return;
  fprintf(stderr, "%s: %s\n", anello_result_name(result), anello_last_error(comm));
  exit(1);
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void send_as_a_loop(char* message) {
  struct pollfd loop = {-1, POLLIN, 0};
  anello_request_t request;
  int done = 0;
  ok(anello_comm_descriptor(comm, &loop.fd));
  ok(anello_isend(message, kBytes, ANELLO_BYTE, 1, 0, comm, &request));
  /* The receiver's grant comes after 3 ms, and finds this thread here. */
  for (const double start = now_ms(); now_ms() < start + 3.3;) ok(anello_progress(comm));
  /* The last of these may have waited for the service thread to move all of it, and taken its ring back. */
  ok(anello_test(&request, &done, NULL));
  while (!done) {
    if (poll(&loop, 1, kPatienceMs) != 1) {
      fputs("it stands still\n", stderr);
      exit(1);
    }
    ok(anello_progress(comm));
    ok(anello_test(&request, &done, NULL));
  }
}

int main(void) {
  int rank;
  char* const message = calloc(kBytes, 1);
  if (message == NULL) return 1;
  ok(anello_comm_create(NULL, &comm));
  ok(anello_comm_rank(comm, &rank));
  for (int round = 0; round < kRounds; ++round) {
    ok(anello_barrier(comm));
    if (rank == 0) {
      send_as_a_loop(message);
    } else {
      const struct timespec nap = {0, 3000000};
      nanosleep(&nap, NULL);
      ok(anello_recv(message, kBytes, ANELLO_BYTE, 0, 0, comm, NULL));
    }
  }
  free(message);
  return anello_comm_destroy(comm) != ANELLO_OK;
}
