/* Two ranks of one host: one communicator works on the same large memory again and again while another one meets more
 * regions than a rank keeps mapped. What is in use stays mapped. Ends with 1 and says what was wrong. Start it with
 * anellorun -np 2. */
#define _POSIX_C_SOURCE 200809L
#include <anello/anello.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRegions = 8191, kSmall = 2048, kLarge = 32 << 20, kCalls = 16 };

static anello_comm_t large_comm, small_comm;
static float* large;

static void ok(anello_result_t result, anello_comm_t comm) {
  if (result == ANELLO_OK) return;
  fprintf(stderr, "%s: %s\n", anello_result_name(result), anello_last_error(comm));
  exit(1);
}

static void use_large(void) {
  ok(anello_allreduce(ANELLO_IN_PLACE, large, kLarge, ANELLO_FLOAT32, ANELLO_MAX, large_comm), large_comm);
}

static void* go_on(void* unused) {
  for (int call = 0; call < kCalls; ++call) use_large();
  return unused;
}

static void meet_regions(int count) {
  for (int i = 0; i < count; ++i) {
    void* small;
    ok(anello_mem_alloc(kSmall * sizeof(float), &small), ANELLO_COMM_NULL);
    memset(small, 0, kSmall * sizeof(float));
    ok(anello_allreduce(ANELLO_IN_PLACE, small, kSmall, ANELLO_FLOAT32, ANELLO_SUM, small_comm), small_comm);
    ok(anello_mem_free(small), ANELLO_COMM_NULL);
  }
}

int main(void) {
  anello_comm_t comm;
  void* memory;
  pthread_t other;
  ok(anello_comm_create(NULL, &comm), ANELLO_COMM_NULL);
  ok(anello_comm_dup(comm, &large_comm), comm);
  ok(anello_comm_dup(comm, &small_comm), comm);
  ok(anello_mem_alloc(kLarge * sizeof(float), &memory), ANELLO_COMM_NULL);
  large = memory;
  memset(large, 0, kLarge * sizeof(float));
  for (int call = 0; call < 3; ++call) use_large();
  meet_regions(kRegions);
  if (pthread_create(&other, NULL, go_on, NULL) != 0) return 1;
  /* The next region is one too many, in the middle of a call over the memory whose turn it would be to go. */
  const struct timespec nap = {0, 3000000};
  nanosleep(&nap, NULL);
  meet_regions(50);
  pthread_join(other, NULL);
  ok(anello_comm_destroy(large_comm), ANELLO_COMM_NULL);
  ok(anello_comm_destroy(small_comm), ANELLO_COMM_NULL);
  ok(anello_comm_destroy(comm), ANELLO_COMM_NULL);
  return 0;
}
