/* Combines the gradients of a data-parallel trainer over all ranks while the backward pass still computes.
 *
 * Each rank holds the whole model and computes gradients over its own samples. Parameters are grouped into buckets, in
 * the reverse of the given order, because a backward pass reaches the last layer first. When all gradients of a bucket
 * are ready, its all-reduce begins, while the earlier layers are still being computed.
 *
 *   anello_gradient_sync_t sync;
 *   anello_gradient_sync_create(comm, parameters, n, NULL, &sync);           collective; all ranks must agree
 *   anello_gradient_sync_broadcast(sync, weights, n, 0);                     equal weights to begin with
 *   for (each batch) {
 *     anello_gradient_sync_begin(sync, 0);
 *     for (each layer, from the last to the first) {
 *       ...                                                                  its gradient, at parameters[i].data
 *       anello_gradient_sync_ready(sync, i, NULL);
 *     }
 *     anello_gradient_sync_wait(sync);                                       parameters[..].data: average of all ranks
 *     ...                                                                    the optimizer's step
 *   }
 *   anello_gradient_sync_destroy(sync);
 *
 * The conventions of anello.h on results, memory, time and bits apply here too. In addition:
 *
 * Threads   Any thread may call ready and unused, for different parameters at once. Only one thread at a time may call
 *           the other functions, and it must make sure that no ready or unused runs meanwhile.
 * Errors    A refused argument (ANELLO_ERR_ARGUMENT, .._TYPE) changes nothing. Any other failure of broadcast, join,
 *           summary, or a call that belongs to a step is final: later calls return the same code, and other ranks learn
 *           of it, at the latest in their next step, which cannot complete. The error text names the parameter or
 *           bucket and the rank; anello_last_error(ANELLO_COMM_NULL) returns it on the same thread.
 * Memory    All gradients of a rank lie in host memory, or all on the config's device; ranks may differ. The buckets
 *           lie there too. Ranks of the same host map them. They take as much memory as the gradients, none with views
 *           and half with a wire type. Error feedback takes 4 bytes per element, and each parameter about 200 bytes.
 * Devices   The synchronizer works in CUDA streams, and computing goes on meanwhile. anello_gradient_sync_ready_on says
 *           in which stream a gradient is computed, and anello_gradient_sync_wait_on which stream waits for results.
 *           Both return once that is enqueued; the streams must live until the step has been waited for. Calls without
 *           a stream do the same in the default stream, and wait returns when the results are there. If a bucket fails
 *           after wait_on has returned, the next begin returns the error, and the results are unspecified. stream is a
 *           cudaStream_t or CUstream, or NULL for the default stream. On the host, streams mean nothing.
 * Order     Every object has a communicator of its own, so its collectives and those of the program do not mix.
 */
#ifndef ANELLO_GRADIENT_SYNC_H
#define ANELLO_GRADIENT_SYNC_H

#include <anello/anello.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Creation --------------------------------------------------------------------------------------------- */

/* Opaque. A destroyed handle is recognised (ANELLO_ERR_STATE). */
typedef struct anello_gradient_sync_handle *anello_gradient_sync_t;
#define ANELLO_GRADIENT_SYNC_NULL ((anello_gradient_sync_t)0)

typedef struct anello_tensor {
  size_t size;          /* sizeof(anello_tensor_t) */
  const char *name;     /* for texts; NULL: its number. A parameter's name is copied, and must be equal on all ranks */
  void *data;           /* count elements */
  size_t count;
  anello_dtype_t dtype; /* for a parameter: FLOAT32, FLOAT64, FLOAT16, BFLOAT16, COMPLEX64 or COMPLEX128 */
} anello_tensor_t;

#define ANELLO_TENSOR_INITIALIZER {sizeof(anello_tensor_t), NULL, NULL, 0, ANELLO_FLOAT32}

/* All fields but device must be equal on all ranks. */
typedef struct anello_gradient_sync_config {
  size_t size;                 /* sizeof(anello_gradient_sync_config_t) */
  size_t first_bucket_bytes;   /* size at which a type's first bucket is closed: small, to start early */
  size_t bucket_bytes;         /* size at which other buckets are closed. Each bucket holds one type */
  int rebuild;                 /* 1: after the first step, follow the order in which rank 0's gradients became ready */
  int views;                   /* 1: gradients live in the buckets (anello_gradient_sync_view) and are not copied */
  int find_unused;             /* 1: a parameter may have no gradient in a step; ranks may differ in this */
  int static_graph;            /* 1: every step has the same gradients, each as often as in the first step, in which
                                  communication does not overlap computation */
  int delay;                   /* 1: nothing is sent before flush or wait, for comparisons */
  anello_op_t op;              /* ANELLO_AVG, ANELLO_SUM, or (not for complex numbers) ANELLO_MIN or ANELLO_MAX */
  double prescale;             /* factor for each gradient before op */
  double postscale;            /* factor for results. PyTorch's DDP: SUM, 1 / size, 1. Horovod: SUM, 1 / f, f / size */
  anello_dtype_t wire;         /* type in which float32 gradients travel: FLOAT32, FLOAT16 or BFLOAT16; 16-bit ones are
                                  added in float32 and rounded once */
  int error_feedback;          /* 1: the rounding error of the wire type is added to the gradient in the next step; if a
                                  step is skipped for its overflow, its error is lost */
  int uneven;                  /* 1: ranks may have different numbers of steps (anello_gradient_sync_join) */
  int average_over_active;     /* for ANELLO_AVG and uneven. 1: divide by the ranks that still had data; 0: by all */
  int check_overflow;          /* 1: look for infinities and NaN (anello_gradient_sync_overflow) */
  double loss_scale;           /* > 0: dynamic loss scaling, which begins with this value, for instance 65536, and
                                  checks for overflow. 0: none */
  int loss_scale_interval;     /* the scale doubles after this number of steps without overflow */
  int64_t timeout_ms;          /* deadline of waits, from the last progress; 0: the communicator's */
  int device;                  /* -1: gradients lie in host memory; otherwise on the CUDA device of this number. Ranks
                                  may differ in it */
} anello_gradient_sync_config_t;

#define ANELLO_GRADIENT_SYNC_CONFIG_INITIALIZER \
  {sizeof(anello_gradient_sync_config_t), (size_t)1 << 20, (size_t)25 << 20, 1, 0, 0, 0, 0, ANELLO_AVG, 1.0, 1.0, \
   ANELLO_FLOAT32, 0, 0, 0, 0, 0.0, 2000, 0, -1}

/* Collective over comm, which it duplicates (anello_comm_dup), so the object may outlive comm. config NULL: the
 * initializer's values. If ranks differ in the number of parameters, in the name, type or count of one, or in config,
 * all get ANELLO_ERR_MISMATCH, and the text names the first parameter that differs and gives it as two ranks have it.
 * If the arguments of one rank are refused, or it has no memory, all get that rank's code. parameters[i].data is where
 * the gradient lies and where the result goes. It is ignored with views, and may be NULL if every call of ready passes
 * the address. */
ANELLO_API anello_result_t anello_gradient_sync_create(anello_comm_t comm, const anello_tensor_t *parameters,
                                                       size_t count, const anello_gradient_sync_config_t *config,
                                                       anello_gradient_sync_t *sync);
/* Local, in bounded time, even with buckets in flight; those end with an error on the other ranks. Null is ANELLO_OK.
 * Views become invalid. */
ANELLO_API anello_result_t anello_gradient_sync_destroy(anello_gradient_sync_t sync);

/* Collective: copies root's tensors (weights, buffers, an optimizer's state) to all ranks. Small ones travel together.
 * They lie in host memory or on the config's device. Ranks that differ in count or type get ANELLO_ERR_MISMATCH. */
ANELLO_API anello_result_t anello_gradient_sync_broadcast(anello_gradient_sync_t sync, const anello_tensor_t *tensors,
                                                          size_t count, int root);

/* ---- A step ----------------------------------------------------------------------------------------------- */

#define ANELLO_GRADIENT_SYNC_LOCAL 1u /* the caller accumulates gradients, nothing is sent; equal on all ranks */

/* Begins a step. The step before must have been waited for, unless it was local. */
ANELLO_API anello_result_t anello_gradient_sync_begin(anello_gradient_sync_t sync, unsigned flags);
/* Parameter i's gradient is complete. gradient is where it lies and where the result goes; the caller must not touch it
 * until wait has returned. NULL: the gradient is at the parameter's data, or in its view. Call once per step, unless
 * the graph is static. */
ANELLO_API anello_result_t anello_gradient_sync_ready(anello_gradient_sync_t sync, size_t i, void *gradient);
/* Likewise; the gradient is complete when the stream has done what was enqueued there before. */
ANELLO_API anello_result_t anello_gradient_sync_ready_on(anello_gradient_sync_t sync, size_t i, void *gradient,
                                                         void *stream);
/* Parameter i has no gradient in this step; it counts as zero. Needs find_unused or static_graph. */
ANELLO_API anello_result_t anello_gradient_sync_unused(anello_gradient_sync_t sync, size_t i);
/* No ready will follow in this step. With find_unused, and in the first step of a static graph, parameters that have
 * not become ready are unused. Otherwise the result is ANELLO_ERR_STATE, and the text names them. */
ANELLO_API anello_result_t anello_gradient_sync_flush(anello_gradient_sync_t sync);
/* Flushes, and returns when the results of all ranks are where the gradients were. In a local step it does not wait. */
ANELLO_API anello_result_t anello_gradient_sync_wait(anello_gradient_sync_t sync);
/* Flushes, and makes the stream wait: what is enqueued there afterwards finds the results. The host waits only if the
 * config checks for overflow or sets find_unused or uneven, in the first step of a static graph, and for a bucket that a
 * hook sends. */
ANELLO_API anello_result_t anello_gradient_sync_wait_on(anello_gradient_sync_t sync, void *stream);
/* Like wait, but does not block: *done says whether the results are there. It flushes only once all parameters have
 * become ready. In the first step of a static graph the library cannot know when that is, so the caller must have
 * called flush. */
ANELLO_API anello_result_t anello_gradient_sync_test(anello_gradient_sync_t sync, int *done);

/* After wait: where the result is, and whether any rank had a gradient (always 1 without find_unused or static_graph).
 * If no rank had one, the gradient is unchanged, or zero in a view. If others had one and this rank has never passed an
 * address for its own, *data is the synchronizer's memory, valid until the next begin. Either pointer may be NULL. */
ANELLO_API anello_result_t anello_gradient_sync_result(anello_gradient_sync_t sync, size_t i, const void **data,
                                                       int *used);
/* Where parameter i's gradient lives; zero at first. The contents stay, but the address may change in the second step's
 * begin if buckets are rebuilt. ANELLO_ERR_STATE without views. */
ANELLO_API anello_result_t anello_gradient_sync_view(anello_gradient_sync_t sync, size_t i, void **gradient);

/* After wait: *found is 1 if a result was infinite or NaN, the same on all ranks. Skip the optimizer's step then. */
ANELLO_API anello_result_t anello_gradient_sync_overflow(anello_gradient_sync_t sync, int *found);
/* *scale is the factor for the loss in the next step; wait divides the gradients by it. An overflow halves it (skip
 * that step's update). loss_scale_interval steps without overflow double it, up to 2^24. It is 1 without loss
 * scaling. */
ANELLO_API anello_result_t anello_gradient_sync_loss_scale(anello_gradient_sync_t sync, double *scale);

/* This rank has no more data: it adds zeros to the other ranks' steps until all ranks have joined. *last_rank (may be
 * NULL) is the rank that had data longest, the highest of several; -1: no rank had any. After join only statistics and
 * destroy may be used. */
ANELLO_API anello_result_t anello_gradient_sync_join(anello_gradient_sync_t sync, int *last_rank);

/* ---- Buckets ---------------------------------------------------------------------------------------------- */

typedef struct anello_bucket {
  size_t size;              /* sizeof(anello_bucket_t) */
  size_t index;             /* its place in the order of sending */
  void *data;               /* as it travels: count elements of dtype. Gaps between parameters are zero */
  size_t count;
  anello_dtype_t dtype;
  const size_t *parameters; /* in the order of their places in the bucket */
  size_t parameter_count;
  int64_t ready_ns;         /* in the last step, counted from its begin; on a device, when the host enqueued or noticed
                               it: its last gradient became ready .. */
  int64_t start_ns;         /* .. its all-reduce began, once those before it had begun .. */
  int64_t end_ns;           /* .. and the rank noticed its end, in wait or at the next ready */
} anello_bucket_t;

#define ANELLO_BUCKET_INITIALIZER {sizeof(anello_bucket_t), 0, NULL, 0, ANELLO_FLOAT32, NULL, 0, 0, 0, 0}

/* Describes the current plan; the second step's begin may make another. */
ANELLO_API anello_result_t anello_gradient_sync_bucket_count(anello_gradient_sync_t sync, size_t *count);
/* Pointers in *bucket are valid until the next begin. */
ANELLO_API anello_result_t anello_gradient_sync_bucket(anello_gradient_sync_t sync, size_t index,
                                                       anello_bucket_t *bucket);

/* Replaces a bucket's all-reduce, and the division that is part of ANELLO_AVG. start is called when the bucket is full,
 * in the order of buckets, with no lock held, on a thread that is inside a call on the object, usually the ready that
 * filled the bucket. It posts on comm whatever it needs and returns a request, or ANELLO_REQUEST_NULL if it has waited
 * itself. On a device, the host waits for the bucket before start. Every rank must post the same calls. finish (may be
 * NULL) is called in wait or wait_on once the request is complete; bucket->data must then hold the result, the same on
 * all ranks. If either returns anything but ANELLO_OK, the step fails with that code. */
typedef struct anello_bucket_hook {
  size_t size;           /* sizeof(anello_bucket_hook_t) */
  void *context;
  anello_result_t (*start)(void *context, const anello_bucket_t *bucket, anello_comm_t comm, anello_request_t *request);
  anello_result_t (*finish)(void *context, const anello_bucket_t *bucket, anello_comm_t comm);
} anello_bucket_hook_t;

#define ANELLO_BUCKET_HOOK_INITIALIZER {sizeof(anello_bucket_hook_t), NULL, NULL, NULL}

/* Call between steps. hook is copied; NULL: none. */
ANELLO_API anello_result_t anello_gradient_sync_set_hook(anello_gradient_sync_t sync, const anello_bucket_hook_t *hook);

/* ---- Statistics ------------------------------------------------------------------------------------------- */

/* Sums over the steps of this rank that were waited for. */
typedef struct anello_gradient_sync_statistics {
  size_t size;               /* sizeof(anello_gradient_sync_statistics_t) */
  uint64_t steps;
  uint64_t local_steps;
  uint64_t overflows;
  size_t buckets;
  size_t bytes;              /* of all buckets, as they travel */
  int64_t computing_ns;      /* from begin to the last ready */
  int64_t communicating_ns;  /* while any bucket was in flight */
  int64_t waiting_ns;        /* in wait, and in the last ready after its copy, until the last bucket had ended:
                                communication that was not hidden */
  int64_t copying_ns;        /* in ready and wait: copying gradients into buckets and back */
  uint64_t copied_bytes;     /* bytes of gradients, in their own type, that it moved: each one twice per step; none with
                                views, unless the wire type differs */
} anello_gradient_sync_statistics_t;

#define ANELLO_GRADIENT_SYNC_STATISTICS_INITIALIZER \
  {sizeof(anello_gradient_sync_statistics_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Local. Call it at any time except inside a step. */
ANELLO_API anello_result_t anello_gradient_sync_query(anello_gradient_sync_t sync,
                                                      anello_gradient_sync_statistics_t *statistics);
/* Collective, between steps or after join: writes one line that says what was sent, how much of it was hidden, and
 * which rank the others waited for. Writes at most capacity bytes, including the 0 at the end, and cuts the text
 * there. */
ANELLO_API anello_result_t anello_gradient_sync_summary(anello_gradient_sync_t sync, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
