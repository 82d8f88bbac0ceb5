/* Collectives and messages in a CUDA stream.
 *
 * A call of this page is enqueued in a stream, like a kernel, and returns at once. The stream runs it behind what is
 * already in the stream, and before what comes later: an event that is recorded behind the call completes when the
 * result is there. The header needs nothing of CUDA; `stream` is a cudaStream_t or CUstream, NULL is the default stream.
 *
 *   anello_allreduce_on(ANELLO_IN_PLACE, x, n, ANELLO_FLOAT32, ANELLO_SUM, comm, stream);
 *   my_kernel<<<blocks, threads, 0, stream>>>(x);                      sees the sum
 *
 * The conventions of anello.h apply, with these differences:
 *
 * Memory    Buffers belong to the stream until it has passed the call. They may lie on the stream's device or on the
 *           host. Arrays of counts are read during the call. Memory for the copies is taken by the first call of a size;
 *           later ones allocate nothing.
 * Order     A collective takes its place in its communicator's order when it is enqueued, a message when its stream
 *           comes to it: one that the host sends meanwhile may overtake it. Calls of one stream run in order. A program
 *           that uses several streams with one communicator enqueues in the same order on every rank.
 * Errors    What is wrong with the arguments is returned. What is wrong with the enqueuing is returned, too, and is as
 *           final for the communicator as errors of the run. anello_comm_async_error tells all of these, and streams
 *           pass its calls without waiting. Results are then unspecified. A deadline (ANELLO_TIMEOUT_MS) counts from
 *           when the stream has come to the call.
 * Destroy   A stream passes the calls of a communicator that was destroyed before it came to them.
 * Graphs    A call may be captured into a graph. It takes its place in the order each time that the graph is replayed:
 *           replay in the same order on every rank, and not while the communicator has other calls in flight. Destroy
 *           the graph before its communicator, after its last replay has ended.
 * Groups    Between anello_group_begin and anello_group_end, streams wait for their calls at the group's end, so that a
 *           send and a receive in one stream need not wait for each other.
 * Limits    Operations with a factor for each rank (premultiplied sums) are refused.
 */
#ifndef ANELLO_STREAM_H
#define ANELLO_STREAM_H

#include <anello/anello.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any call, by its struct: what anello_post is for calls that are in no stream. */
ANELLO_API anello_result_t anello_post_on(anello_comm_t comm, const anello_call_t *call, void *stream);

/* The first error of a communicator's calls, so far: ANELLO_OK, or the code that its later calls return. Does not wait.
 * anello_last_error has the text. */
ANELLO_API anello_result_t anello_comm_async_error(anello_comm_t comm);

/* As their namesakes in anello.h. */
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

/* A message from another rank's stream, or from its host, and to either. A receive does not tell how long its message
 * was; elements behind it stay as they are. */
ANELLO_API anello_result_t anello_send_on(const void *buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                          anello_comm_t comm, void *stream);
ANELLO_API anello_result_t anello_recv_on(void *buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                          anello_comm_t comm, void *stream);

#ifdef __cplusplus
}
#endif

#endif
