/* Collectives and messages in a CUDA stream.
 *
 * These functions enqueue a call in a stream, like a kernel, and return at once. The stream runs the call after all
 * earlier work and before all later work: an event that is recorded after the call completes when the result is there.
 * `stream` is a cudaStream_t or CUstream, or NULL for the default stream. This header includes nothing of CUDA.
 *
 *   anello_allreduce_on(ANELLO_IN_PLACE, x, n, ANELLO_FLOAT32, ANELLO_SUM, comm, stream);
 *   my_kernel<<<blocks, threads, 0, stream>>>(x);                      sees the sum
 *
 * The conventions of anello.h apply, with these differences:
 *
 * Memory    Buffers belong to the stream until it has passed the call. They may lie on the stream's device or on the
 *           host. The arrays of counts are read during the call. The first call of a size allocates memory for the
 *           copies; later calls allocate nothing.
 * Order     A collective takes its place in its communicator's order when it is enqueued. A message takes its place
 *           when the stream reaches it, so a later send of the host may overtake it. Calls of one stream run in order.
 *           A program that uses several streams with one communicator must enqueue in the same order on every rank.
 * Errors    The function returns errors in the arguments, and failures to enqueue. A failure to enqueue or to run is
 *           final for the communicator. anello_comm_async_error returns it, streams then pass the communicator's calls
 *           without waiting, and their results are unspecified. A deadline (ANELLO_TIMEOUT_MS) counts from the moment
 *           when the stream reaches the call.
 * Destroy   A stream also passes the calls that it has not reached when their communicator is destroyed.
 * Graphs    A call may be captured into a graph. It takes its place in the order at each replay. All ranks must replay
 *           in the same order, and only while the communicator has no other calls in flight. Destroy the graph before
 *           its communicator, after the last replay has ended.
 * Groups    Between anello_group_begin and anello_group_end, streams wait for their calls only at the group's end. A
 *           send and a receive in one stream therefore do not wait for each other.
 * Limits    Operations with a factor for each rank (premultiplied sums) are refused.
 */
#ifndef ANELLO_STREAM_H
#define ANELLO_STREAM_H

#include <anello/anello.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues any call, given by its struct, as anello_post does for calls outside of streams. */
ANELLO_API anello_result_t anello_post_on(anello_comm_t comm, const anello_call_t *call, void *stream);

/* Returns ANELLO_OK, or the communicator's first error so far, which its later calls return too. Does not wait.
 * anello_last_error has the text. */
ANELLO_API anello_result_t anello_comm_async_error(anello_comm_t comm);

/* These do what the functions without _on in anello.h do. */
ANELLO_API anello_result_t anello_allreduce_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                               anello_op_t op, anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_broadcast_on(void *buffer, size_t count, anello_dtype_t dtype, int root,
                                               anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_reduce_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_op_t op, int root, anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_allgather_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                               anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_reduce_scatter_block_on(const void *sendbuf, void *recvbuf, size_t count,
                                                          anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                                          void *stream);
ANELLO_API anello_result_t anello_gather_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            int root, anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_scatter_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                             int root, anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_alltoall_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                              anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_scan_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                          anello_op_t op, anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_exscan_on(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_op_t op, anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_barrier_on(anello_comm_t comm, void *stream);

/* The other rank may send or receive in a stream or on its host. A receive does not report the length of its message;
 * elements after the message stay unchanged. */
ANELLO_API anello_result_t anello_send_on(const void *buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                          anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_recv_on(void *buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                          anello_comm_t comm, void *stream);

#ifdef __cplusplus
}
#endif

#endif
