/* Each rank has a vector; afterwards each rank has the sum of all of them. Start it with anellorun -np 4. */
#include <anello/anello.h>
#include <stdio.h>

int main(void) {
  anello_comm_t comm;
  int rank, size, wrong = 0;
  if (anello_comm_create(NULL, &comm) != ANELLO_OK) { /* rank and size come from the environment */
    fprintf(stderr, "%s\n", anello_last_error(ANELLO_COMM_NULL));
    return 1;
  }
  anello_comm_rank(comm, &rank);
  anello_comm_size(comm, &size);

  float x[3] = {(float)rank, 1, (float)(2 * rank)};
  if (anello_allreduce(ANELLO_IN_PLACE, x, 3, ANELLO_FLOAT32, ANELLO_SUM, comm) != ANELLO_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, anello_last_error(comm));
    return 1;
  }
  printf("rank %d of %d: %g %g %g\n", rank, size, x[0], x[1], x[2]);

  const int sum_of_ranks = size * (size - 1) / 2;
  wrong += x[0] != sum_of_ranks || x[1] != size || x[2] != 2 * sum_of_ranks;
  return anello_comm_destroy(comm) != ANELLO_OK || wrong;
}
