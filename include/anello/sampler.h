/* Says which samples of a data set a rank trains on: the index lists of PyTorch's DistributedSampler, bit for bit. A
 * trainer in C and one in Python with the same seed see the same data in the same order.
 *
 *   anello_sampler_t shard = ANELLO_SAMPLER_INITIALIZER;
 *   shard.samples = 60000;
 *   anello_comm_rank(comm, &shard.rank);
 *   anello_comm_size(comm, &shard.world_size);
 *   size_t count;
 *   anello_sampler_count(&shard, &count);
 *   int64_t *indices = malloc(count * sizeof *indices);
 *   for (uint64_t epoch = 0; epoch < 10; ++epoch) {
 *     anello_sampler_indices(&shard, epoch, indices);
 *     ...
 *   }
 *
 * Nothing here talks to other ranks: all ranks must give the same values, except their rank. Any thread may call any
 * function. Errors: ANELLO_ERR_ARGUMENT, with a text in anello_last_error(ANELLO_COMM_NULL).
 */
#ifndef ANELLO_SAMPLER_H
#define ANELLO_SAMPLER_H

#include <anello/anello.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shards ----------------------------------------------------------------------------------------------- */

/* Describes a data set, and this rank's share of it. */
typedef struct anello_sampler {
  size_t size;        /* sizeof(anello_sampler_t) */
  int64_t samples;    /* number of samples in the data set */
  int rank;           /* 0..world_size-1 */
  int world_size;
  int shuffle;        /* 0: in order. Else a different permutation in each epoch */
  int drop_last;      /* for when ranks would get different counts. 0: the first samples of the epoch are repeated at
                         its end. Else its last samples are left out */
  uint64_t seed;      /* equal on all ranks */
} anello_sampler_t;

#define ANELLO_SAMPLER_INITIALIZER {sizeof(anello_sampler_t), 0, 0, 1, 1, 0, 0}

/* How many samples each rank gets in each epoch. */
ANELLO_API anello_result_t anello_sampler_count(const anello_sampler_t *sampler, size_t *count);

/* Writes this rank's samples of an epoch to indices[0..count), as numbers in 0..samples-1: every world_size-th of the
 * epoch's order, starting with the rank-th. With shuffle, the order is the Fisher-Yates permutation that torch.randperm
 * draws on a CPU, from a 32-bit Mersenne twister seeded with the low 32 bits of seed + epoch. The call then needs 8
 * bytes per sample of the data set. */
ANELLO_API anello_result_t anello_sampler_indices(const anello_sampler_t *sampler, uint64_t epoch, int64_t *indices);

#ifdef __cplusplus
}
#endif
#endif
