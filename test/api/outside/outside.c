/* A program of somebody else: two threads of it sum a number. */
#include <anello/anello.h>

#include <pthread.h>
#include <stdio.h>

static void* rank_main(void* comm) {
  float value = 1;
  anello_result_t result = anello_allreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_FLOAT32, ANELLO_SUM, comm);
  if (result != ANELLO_OK) fprintf(stderr, "%s\n", anello_last_error(comm));
  anello_comm_destroy(comm);
  return result == ANELLO_OK && value == 2 ? NULL : "wrong";
}

int main(void) {
  anello_comm_t comms[2];
  pthread_t threads[2];
  int failed = 0;
  if (anello_comm_create_all(2, comms) != ANELLO_OK) {
    fprintf(stderr, "%s\n", anello_last_error(ANELLO_COMM_NULL));
    return 1;
  }
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, rank_main, comms[i]);
  for (int i = 0; i < 2; ++i) {
    void* wrong = NULL;
    pthread_join(threads[i], &wrong);
    failed += wrong != NULL;
  }
  printf("anello %s: %s\n", ANELLO_VERSION_STRING, failed == 0 ? "the sum is right" : "the sum is wrong");
  return failed;
}
