/* Each rank learns y = 2 a - 3 b + 1 from its share of 1,000 samples. Start it with anellorun -np 2. */
#include <anello/gradient_sync.h>
#include <anello/sampler.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSamples = 1000, kBatch = 10, kEpochs = 5 };

static void ok(anello_result_t result, const char* what) {
  if (result == ANELLO_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, anello_result_name(result), anello_last_error(ANELLO_COMM_NULL));
  exit(1);
}

int main(void) {
  anello_comm_t comm;
  anello_sampler_t shard = ANELLO_SAMPLER_INITIALIZER;
  ok(anello_comm_create(NULL, &comm), "joining the other ranks");
  ok(anello_comm_rank(comm, &shard.rank), "rank");
  ok(anello_comm_size(comm, &shard.world_size), "size");
  shard.samples = kSamples;

  float w[2] = {0, 0}, bias = 0, w_gradient[2], bias_gradient;
  const anello_tensor_t weights[] = {{sizeof weights[0], "w", w, 2, ANELLO_FLOAT32},
                                     {sizeof weights[0], "bias", &bias, 1, ANELLO_FLOAT32}};
  anello_tensor_t gradients[] = {weights[0], weights[1]};
  gradients[0].data = w_gradient;
  gradients[1].data = &bias_gradient;
  anello_gradient_sync_t sync;
  ok(anello_gradient_sync_create(comm, gradients, 2, NULL, &sync), "making buckets");
  ok(anello_gradient_sync_broadcast(sync, weights, 2, 0), "equal weights to begin with");

  size_t count;
  ok(anello_sampler_count(&shard, &count), "counting samples");
  int64_t* mine = malloc(count * sizeof *mine);
  if (mine == NULL) return 1;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    double loss = 0;
    ok(anello_sampler_indices(&shard, (uint64_t)epoch, mine), "drawing samples");
    for (size_t at = 0; at + kBatch <= count; at += kBatch) {
      w_gradient[0] = w_gradient[1] = bias_gradient = 0;
      ok(anello_gradient_sync_begin(sync, 0), "beginning a step");
      for (size_t i = at; i < at + kBatch; ++i) {
        const float a = (float)(mine[i] % 10) / 5 - 1, b = (float)(mine[i] / 10 % 10) / 5 - 1;
        const float error = w[0] * a + w[1] * b + bias - (2 * a - 3 * b + 1);
        loss += error * error;
        w_gradient[0] += 2 * error * a / kBatch;
        w_gradient[1] += 2 * error * b / kBatch;
        bias_gradient += 2 * error / kBatch;
      }
      ok(anello_gradient_sync_ready(sync, 1, NULL), "handing over the bias");
      ok(anello_gradient_sync_ready(sync, 0, NULL), "handing over w");
      ok(anello_gradient_sync_wait(sync), "averaging"); /* now the gradients are averages of all ranks */
      w[0] -= 0.2f * w_gradient[0];
      w[1] -= 0.2f * w_gradient[1];
      bias -= 0.2f * bias_gradient;
    }
    if (shard.rank == 0)
      printf("epoch %d: loss %.5f, y = %.2f a %+.2f b %+.2f\n", epoch + 1, loss / (double)count, w[0], w[1], bias);
  }
  char line[256];
  ok(anello_gradient_sync_summary(sync, line, sizeof line), "summing up");
  if (shard.rank == 0) puts(line);
  free(mine);
  ok(anello_gradient_sync_destroy(sync), "destroying the synchronizer");
  ok(anello_comm_destroy(comm), "leaving");
  return !(w[0] > 1.9f && w[0] < 2.1f && w[1] > -3.1f && w[1] < -2.9f && bias > 0.9f && bias < 1.1f);
}
