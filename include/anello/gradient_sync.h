/* Gradients of a data-parallel trainer, combined over all ranks while the backward pass still computes.
 *
 * Each rank holds the whole model and computes gradients over its own samples. Parameters are put together in buckets, in the
 * reverse of the given order, since a backward pass reaches the last layer first; as soon as all gradients of a bucket are
 * there its all-reduce begins, and the earlier layers are computed meanwhile.
 *
 *   anello_gradient_sync_t sync;
 *   anello_gradient_sync_create(comm, parameters, n, NULL, &sync);           collective; all ranks must agree
 *   anello_gradient_sync_broadcast(sync, weights, n, 0);                     equal weights to begin with
 *   for (each batch) {
 *     anello_gradient_sync_begin(sync, 0);
 *     for (each layer, from the last to the first) {
 *       ...                                                                 its gradient, at parameters[i].data
 *       anello_gradient_sync_ready(sync, i, NULL);
 *     }
 *     anello_gradient_sync_wait(sync);                                       parameters[..].data: the average of all ranks
 *     ...                                                                    the optimizer's step
 *   }
 *   anello_gradient_sync_destroy(sync);
 *
 * What anello.h says of results, memory, time and bits holds here too, and beside it:
 *
 * Threads   ready and unused may be called from any thread, for different parameters at once. All else is for one thread at
 *           a time, which also sees to it that no ready or unused is under way meanwhile.
 * Errors    A refused argument (ANELLO_ERR_ARGUMENT, .._TYPE) changes nothing. Any other failure of broadcast, join, or a call
 *           that belongs to a step is final: later calls return the same code, and other ranks learn of it, at the
 *           latest in their next step, which cannot complete. The text names the parameter or bucket and the rank, and stands in
 *           anello_last_error(ANELLO_COMM_NULL) of the same thread.
 * Memory    Gradients lie in the host's memory; that of devices is not taken yet, and a pointer is not asked where it leads.
 *           Beside them: their size once more in buckets that ranks of the same host map, none of it with views; with a wire
 *           type half of it; 4 bytes an element for error feedback; about 200 bytes a parameter.
 * Order     Every object has a communicator of its own, so that its collectives and those of the program do not mix.
 */
#ifndef ANELLO_GRADIENT_SYNC_H
#define ANELLO_GRADIENT_SYNC_H

#include <anello/anello.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Creation --------------------------------------------------------------------------------------------- */

/* Opaque. One that was destroyed is recognised (ANELLO_ERR_STATE). */
typedef struct anello_gradient_sync_handle *anello_gradient_sync_t;
#define ANELLO_GRADIENT_SYNC_NULL ((anello_gradient_sync_t)0)

typedef struct anello_tensor {
  size_t size;          /* sizeof(anello_tensor_t) */
  const char *name;     /* for texts; NULL: its number. Of a parameter it is copied, and equal on all ranks */
  void *data;           /* count elements */
  size_t count;
  anello_dtype_t dtype; /* of a parameter: FLOAT32, FLOAT64, FLOAT16, BFLOAT16, COMPLEX64 or COMPLEX128 */
} anello_tensor_t;

#define ANELLO_TENSOR_INITIALIZER {sizeof(anello_tensor_t), NULL, NULL, 0, ANELLO_FLOAT32}

/* All fields are equal on all ranks. */
typedef struct anello_gradient_sync_config {
  size_t size;                 /* sizeof(anello_gradient_sync_config_t) */
  size_t first_bucket_bytes;   /* a bucket is closed when it holds this much; the first: early to start with */
  size_t bucket_bytes;         /* all others. Buckets hold one type each */
  int rebuild;                 /* 1: after the first step in the order in which rank 0's gradients became ready */
  int views;                   /* 1: gradients live in the buckets (anello_gradient_sync_view) and are not copied */
  int find_unused;             /* 1: parameters may have no gradient in a step, which differs from rank to rank */
  int static_graph;            /* 1: each step has the same gradients, as often as the first had; that one does not overlap */
  int delay;                   /* 1: nothing is sent before flush or wait: to compare with */
  anello_op_t op;              /* ANELLO_AVG, ANELLO_SUM, ANELLO_MIN or ANELLO_MAX (not of complex numbers) */
  double prescale;             /* what each gradient is multiplied by before, .. */
  double postscale;            /* .. and what comes out. PyTorch's DDP: SUM, 1 / size, 1. Horovod: SUM, 1 / f, f / size */
  anello_dtype_t wire;         /* in which float32 gradients travel: FLOAT32, FLOAT16 or BFLOAT16, which are added in
                                * float32 and rounded once */
  int error_feedback;          /* 1: what rounding to the wire type took from a gradient is added to the next step's; a step that
                                * is skipped for its overflow takes its share with it */
  int uneven;                  /* 1: ranks may have different numbers of steps (anello_gradient_sync_join) */
  int average_over_active;     /* of ANELLO_AVG, uneven: 1: divided by the ranks that still had data; 0: by all */
  int check_overflow;          /* 1: infinities and NaN are looked for (anello_gradient_sync_overflow) */
  double loss_scale;           /* > 0: dynamic loss scaling that begins with this, for instance 65536; checks for overflow. 0: none */
  int loss_scale_interval;     /* clean steps after which it doubles */
  int64_t timeout_ms;          /* deadline of waits, from the last progress; 0: the communicator's */
} anello_gradient_sync_config_t;

#define ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER                                                                          \
  {sizeof(anello_gradient_sync_config_t), (size_t)1 << 20, (size_t)25 << 20, 1, 0, 0, 0, 0, ANELLO_AVG, 1.0, 1.0,        \
   ANELLO_FLOAT32, 0, 0, 0, 0, 0.0, 2000, 0}

/* Collective over comm, which it copies (anello_comm_dup): the object outlives it. config NULL: the initializer's. Where ranks
 * differ in the number of parameters, in one's name, type or count, or in config, all get ANELLO_ERR_MISMATCH, and the text
 * names the first parameter that differs and what two ranks say of it; where one rank was refused an argument or has no memory,
 * all get that rank's code. parameters[i].data: where its gradient lies and its result goes; not looked at with views; NULL
 * where every ready says so. */
ANELLO_API anello_result_t anello_gradient_sync_create(anello_comm_t comm, const anello_tensor_t *parameters, size_t count,
                                                       const anello_gradient_sync_config_t *config,
                                                       anello_gradient_sync_t *sync);
/* Local, in bounded time, also with buckets under way, which end with an error on the other ranks. Null is ANELLO_OK. Views
 * are gone. */
ANELLO_API anello_result_t anello_gradient_sync_destroy(anello_gradient_sync_t sync);

/* Collective: tensors (weights, buffers, an optimizer's state) of all ranks become root's. Small ones travel together. Ranks
 * that differ in count or type get ANELLO_ERR_MISMATCH. */
ANELLO_API anello_result_t anello_gradient_sync_broadcast(anello_gradient_sync_t sync, const anello_tensor_t *tensors,
                                                          size_t count, int root);

/* ---- A step ----------------------------------------------------------------------------------------------- */

#define ANELLO_GRADIENT_SYNC_LOCAL 1u /* gradients are accumulated by the caller and nothing is sent; equal on all ranks */

/* Begins a step. The one before must have been waited for, unless it was local. */
ANELLO_API anello_result_t anello_gradient_sync_begin(anello_gradient_sync_t sync, unsigned flags);
/* Parameter i's gradient is complete. gradient: where it lies and where the result will come to, left alone until wait has
 * returned; NULL: at the parameter's data, or in its view. Once a step, unless the graph is static. */
ANELLO_API anello_result_t anello_gradient_sync_ready(anello_gradient_sync_t sync, size_t i, void *gradient);
/* There will be none in this step: it counts as zero. Needs find_unused or static_graph. */
ANELLO_API anello_result_t anello_gradient_sync_unused(anello_gradient_sync_t sync, size_t i);
/* No ready will come any more: with find_unused what has not come is unused, else it is ANELLO_ERR_STATE and named. */
ANELLO_API anello_result_t anello_gradient_sync_flush(anello_gradient_sync_t sync);
/* Flushes, and returns when the results of all ranks are where the gradients were. Of a local step nothing is waited for. */
ANELLO_API anello_result_t anello_gradient_sync_wait(anello_gradient_sync_t sync);
/* The same without blocking: *done says whether it was there. Flushes only where all have become ready; of the first step of a
 * static graph nobody knows when that is, and flush must have been called. */
ANELLO_API anello_result_t anello_gradient_sync_test(anello_gradient_sync_t sync, int *done);

/* After wait: where the result is, and whether any rank had a gradient (always 1 without find_unused or static_graph). Where
 * none had, the gradient is what it was before; in a view, zero. Where others had and this rank has never said where its own
 * would be, *data is memory of the synchronizer's, until the next begin. Either pointer may be NULL. */
ANELLO_API anello_result_t anello_gradient_sync_result(anello_gradient_sync_t sync, size_t i, const void **data, int *used);
/* Where parameter i's gradient lives, zero at first. Contents stay, but the address may change in the second step's begin, where
 * buckets are rebuilt. ANELLO_ERR_STATE without views. */
ANELLO_API anello_result_t anello_gradient_sync_view(anello_gradient_sync_t sync, size_t i, void **gradient);

/* After wait: *found is 1 where a result, the same one on all ranks, was infinite or NaN: skip the optimizer's step. */
ANELLO_API anello_result_t anello_gradient_sync_overflow(anello_gradient_sync_t sync, int *found);
/* What to multiply the loss by in the next step; wait divides the gradients by it. Halved by an overflow (which skips that
 * step), doubled after loss_scale_interval steps without, at most to 2^24. 1 without loss scaling. */
ANELLO_API anello_result_t anello_gradient_sync_loss_scale(anello_gradient_sync_t sync, double *scale);

/* This rank has no more data: it adds zeros to the others' steps until all have joined. *last_rank (may be NULL): who had data
 * longest, of several the highest; -1: nobody had any. Ends the object's use: only statistics and destroy are left. */
ANELLO_API anello_result_t anello_gradient_sync_join(anello_gradient_sync_t sync, int *last_rank);

/* ---- Buckets ---------------------------------------------------------------------------------------------- */

typedef struct anello_bucket {
  size_t size;              /* sizeof(anello_bucket_t) */
  size_t index;             /* the order in which they are sent */
  void *data;               /* as it travels: count elements of dtype. Gaps between parameters are zero */
  size_t count;
  anello_dtype_t dtype;
  const size_t *parameters; /* in the order of their places */
  size_t parameter_count;
  int64_t ready_ns;         /* of the last step, from its begin: its last gradient was there .. */
  int64_t start_ns;         /* .. its all-reduce began, once those before it had .. */
  int64_t end_ns;           /* .. and was seen to have ended: in wait, or at the next ready */
} anello_bucket_t;

#define ANELLO_BUCKET_INITIALIZER {sizeof(anello_bucket_t), 0, NULL, 0, ANELLO_FLOAT32, NULL, 0, 0, 0, 0}

/* Of the plan as it is now: the second step's begin may make another. */
ANELLO_API anello_result_t anello_gradient_sync_bucket_count(anello_gradient_sync_t sync, size_t *count);
/* Pointers in it are valid until the next begin. */
ANELLO_API anello_result_t anello_gradient_sync_bucket(anello_gradient_sync_t sync, size_t index, anello_bucket_t *bucket);

/* In place of a bucket's all-reduce, and of the division that is part of ANELLO_AVG. start: called when the bucket is full, in
 * the order of buckets, on the thread whose ready filled it and with no lock held; posts on comm what it likes and hands back
 * a request, or ANELLO_REQUEST_NULL where it has waited itself; every rank must post the same. finish (may be NULL): called in
 * wait once the request is complete; bucket->data must then hold the result, the same on all ranks. What either returns but
 * ANELLO_OK is the step's failure. */
typedef struct anello_bucket_hook {
  size_t size;           /* sizeof(anello_bucket_hook_t) */
  void *context;
  anello_result_t (*start)(void *context, const anello_bucket_t *bucket, anello_comm_t comm, anello_request_t *request);
  anello_result_t (*finish)(void *context, const anello_bucket_t *bucket, anello_comm_t comm);
} anello_bucket_hook_t;

#define ANELLO_BUCKET_HOOK_INITIALIZER {sizeof(anello_bucket_hook_t), NULL, NULL, NULL}

/* Between steps. Copied; NULL for none. */
ANELLO_API anello_result_t anello_gradient_sync_set_hook(anello_gradient_sync_t sync, const anello_bucket_hook_t *hook);

/* ---- Statistics ------------------------------------------------------------------------------------------- */

/* Of steps that were waited for, of this rank, summed. */
typedef struct anello_gradient_sync_statistics {
  size_t size;               /* sizeof(anello_gradient_sync_statistics_t) */
  uint64_t steps;
  uint64_t local_steps;
  uint64_t overflows;
  size_t buckets;
  size_t bytes;              /* of all buckets as they travel */
  int64_t computing_ns;      /* from begin to the last ready */
  int64_t communicating_ns;  /* while some bucket was under way */
  int64_t waiting_ns;        /* in wait, and in the last ready from its copy on, until the last bucket had ended: communication
                              * that nothing hid */
  int64_t copying_ns;        /* in ready and wait: gradients into buckets and back */
  uint64_t copied_bytes;     /* of gradients, in their own type, that it moved: each twice a step; none with views, unless the
                              * wire type is another */
} anello_gradient_sync_statistics_t;

#define ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER {sizeof(anello_gradient_sync_statistics_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* At any time but inside a step; local. */
ANELLO_API anello_result_t anello_gradient_sync_query(anello_gradient_sync_t sync,
                                                      anello_gradient_sync_statistics_t *statistics);
/* Collective, between steps or after join: one line on what was sent, how much of it was hidden, and which rank the others waited for.
 * At most capacity bytes with the 0 at the end; cut there. */
ANELLO_API anello_result_t anello_gradient_sync_summary(anello_gradient_sync_t sync, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
