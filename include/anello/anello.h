/* Anello: collective communication for N ranks that each hold a buffer.
 *
 * A rank is one participant, numbered 0..size-1: a process, or a thread of one. A communicator joins ranks;
 * all of its ranks call the same collectives in the same order, and each call returns when this rank's part
 * is done.
 *
 *   anello_comm_t comm;
 *   anello_comm_create(NULL, &comm);                                   rank and size from the environment
 *   anello_allreduce(ANELLO_IN_PLACE, x, n, ANELLO_FLOAT32, ANELLO_SUM, comm);
 *   anello_comm_destroy(comm);
 *
 * Conventions, true of every function below unless its own comment says otherwise:
 *
 * Results   Every function returns anello_result_t; ANELLO_OK is 0. On failure out-parameters are untouched and
 *           anello_last_error says which call, which rank, why, and what to do. The process is never ended, no
 *           signal handler is installed, nothing is printed except through the log (ANELLO_LOG).
 * Sticky    A call that is refused for its arguments (ANELLO_ERR_ARGUMENT, .._TYPE) still takes its place in the
 *           order of collectives: the other ranks learn of it as ANELLO_ERR_MISMATCH. Every other failure of an
 *           operation is final for its communicator: later calls return the same code. Other communicators go on,
 *           also those that share a connection with it.
 * Memory    Buffers belong to the caller, who leaves them alone from the call until it returns (blocking) or
 *           until wait or test has reported completion (nonblocking). After that nobody touches them, whether
 *           the operation succeeded or not. Contents of receive buffers after a failure are unspecified.
 * Counts    Elements, not bytes, as size_t. Zero is legal: buffers may then be NULL, and the call still
 *           synchronises as the same call with data would.
 * Threads   Every function may be called from any thread, also on one communicator at once. Collectives of one
 *           communicator take their order from the order of posting; a program that posts them from several threads
 *           must order those posts itself, and equally on every rank.
 * Cancel    A thread that is cancelled (pthread_cancel) during a call finishes the call first; anello_comm_abort ends
 *           that call at once. Asynchronous cancellation must be off.
 * Time      Every wait has a deadline (ANELLO_TIMEOUT_MS, anello_config_t.timeout_ms), counted from the last progress.
 * Bits      Ranks that receive the same result receive the same bits. 16- and 8-bit floats accumulate in float32 and
 *           round once.
 * Fork      A forked child must not use what its parent created: every call returns ANELLO_ERR_FORKED.
 */
#ifndef ANELLO_ANELLO_H
#define ANELLO_ANELLO_H

#include <stddef.h>
#include <stdint.h>

#include <anello/version.h>

#if defined(__GNUC__)
#define ANELLO_API __attribute__((visibility("default")))
#else
#define ANELLO_API
#endif

/* In C++ a number that is no enumerator may be passed, and is refused, only where the type behind it is fixed. */
#ifdef __cplusplus
#define ANELLO_ENUM(name) enum name : int
extern "C" {
#else
#define ANELLO_ENUM(name) enum name
#endif

/* ---- Results ---------------------------------------------------------------------------------------------- */

typedef ANELLO_ENUM(anello_result) {
  ANELLO_OK = 0,
  ANELLO_ERR_ARGUMENT = 1,    /* a null or overlapping buffer, a rank out of range, a bad handle or size */
  ANELLO_ERR_TYPE = 2,        /* an unknown data type or operation, or a pair that makes no sense */
  ANELLO_ERR_STATE = 3,       /* a handle used after destroy, or a call that does not fit the moment */
  ANELLO_ERR_PEER_LOST = 4,   /* the call needs a rank that has ended or cannot be reached; data it had sent still counts */
  ANELLO_ERR_MISMATCH = 5,    /* ranks disagree on the call; the text names both calls, of ranks that still know theirs */
  ANELLO_ERR_TIMEOUT = 6,     /* no progress for the deadline */
  ANELLO_ERR_RENDEZVOUS = 7,  /* ranks missing, doubled, or of different opinion on the size */
  ANELLO_ERR_AUTH = 8,        /* a peer could not prove the job's secret */
  ANELLO_ERR_VERSION = 9,     /* a peer speaks another version of the protocol */
  ANELLO_ERR_ADDRESS = 10,    /* a name, port or interface cannot be used */
  ANELLO_ERR_RESOURCE = 11,   /* out of memory, descriptors, or a stated bound */
  ANELLO_ERR_TRUNCATE = 12,   /* a message is longer than the receive buffer */
  ANELLO_ERR_ABORTED = 13,    /* a rank called anello_comm_abort */
  ANELLO_ERR_FORKED = 14,     /* used in a child of the process that created it */
  ANELLO_ERR_SYSTEM = 15,     /* a system call failed; the text has its name and errno */
  ANELLO_ERR_CORRUPT = 16,    /* an authenticated peer sent what the protocol does not allow */
  ANELLO_ERR_INTERNAL = 17    /* a fault of Anello; please report it */
} anello_result_t;

/* The enumerator's name, for instance "ANELLO_ERR_TIMEOUT". Never NULL; static. */
ANELLO_API const char *anello_result_name(anello_result_t result);

/* ---- Types and operations --------------------------------------------------------------------------------- */

typedef ANELLO_ENUM(anello_dtype) {
  ANELLO_FLOAT32 = 0,
  ANELLO_FLOAT64 = 1,
  ANELLO_INT32 = 2,
  ANELLO_INT64 = 3,
  ANELLO_UINT8 = 4,
  ANELLO_FLOAT16 = 5,  /* IEEE 754 binary16 */
  ANELLO_BFLOAT16 = 6, /* the upper half of a float32 */
  ANELLO_INT8 = 7,
  ANELLO_INT16 = 8,
  ANELLO_UINT16 = 9,
  ANELLO_UINT32 = 10,
  ANELLO_UINT64 = 11,
  ANELLO_FLOAT8_E4M3 = 12, /* OCP E4M3, "e4m3fn": up to 448, no infinity, one NaN of each sign */
  ANELLO_FLOAT8_E5M2 = 13, /* OCP E5M2: as IEEE 754 would have it, up to 57344, then infinity */
  ANELLO_BOOL = 14,        /* one byte: 0 is false, all else true; what is computed is 0 or 1 */
  ANELLO_COMPLEX64 = 15,   /* two float32: real, imaginary */
  ANELLO_COMPLEX128 = 16,  /* two float64 */
  ANELLO_BYTE = 17,        /* moves, never reduces */
  ANELLO_FLOAT32_INT = 18, /* the pairs below, for MINLOC and MAXLOC */
  ANELLO_FLOAT64_INT = 19,
  ANELLO_INT32_INT = 20,
  ANELLO_INT64_INT = 21
} anello_dtype_t;

/* A value and where it came from. 8 bytes with a value of 4, 16 with one of 8, whose last 4 bytes are padding and become
 * 0 where a pair is computed. */
typedef struct anello_float32_int { float value; int32_t index; } anello_float32_int_t;
typedef struct anello_float64_int { double value; int32_t index; } anello_float64_int_t;
typedef struct anello_int32_int { int32_t value; int32_t index; } anello_int32_int_t;
typedef struct anello_int64_int { int64_t value; int32_t index; } anello_int64_int_t;

/* What makes no sense (bor of floats, min of complex numbers, anything of bytes) is ANELLO_ERR_TYPE.
 * Integers wrap. MIN and MAX of floats propagate NaN and take -0 to be less than +0. AVG is the sum divided by the
 * number of ranks, integers truncated towards zero; not of bool. Of bool, SUM, MAX and BOR are LOR; PROD, MIN and BAND
 * are LAND; BXOR is LXOR. B* (bits) and L* (0 or 1) take integers and bool. MINLOC and MAXLOC take pairs: the least or
 * greatest value in the order of MIN and MAX, NaN winning, and of equal ones that with the lowest index.
 * A complex product is (ac - bd) + (ad + bc)i, without the repairs of infinities of C's annex G.
 * Of rounding to 8 bits: to nearest even; past the end (E4M3: from above 464) E4M3 becomes NaN, never 448, and E5M2
 * infinity, so that an overflow shows.
 * Alone (one rank), the input is the result as it is. */
typedef ANELLO_ENUM(anello_op) {
  ANELLO_SUM = 0,
  ANELLO_PROD = 1,
  ANELLO_MIN = 2,
  ANELLO_MAX = 3,
  ANELLO_AVG = 4,
  ANELLO_BAND = 5,
  ANELLO_BOR = 6,
  ANELLO_BXOR = 7,
  ANELLO_LAND = 8,
  ANELLO_LOR = 9,
  ANELLO_LXOR = 10,
  ANELLO_MINLOC = 11,
  ANELLO_MAXLOC = 12
} anello_op_t;

/* Elements of the caller's own, each of 1 to ANELLO_ELEMENT_MAX bytes, as anello_dtype_t: they move as they are, and only
 * an operation of the caller's own reduces them. */
#define ANELLO_ELEMENT_MAX 16384
#define ANELLO_ELEMENT(bytes) ((anello_dtype_t)(0x10000 + (bytes)))

/* Bytes of one element; 0 for an unknown type. */
ANELLO_API size_t anello_dtype_size(anello_dtype_t dtype);
/* "float32", "sum"; "element" for ANELLO_ELEMENT, "custom" for an operation of the caller's own; "unknown" for what is not
 * listed above. Static. */
ANELLO_API const char *anello_dtype_name(anello_dtype_t dtype);
ANELLO_API const char *anello_op_name(anello_op_t op);

/* into[i] = left[i] op right[i], i < count, where left combines lower ranks than right does. into may be left or right.
 * Must be associative as far as the caller cares, and give the same result for the same operands on every rank. Called
 * from whichever thread drives the rank, Anello's own included, under the rank's lock: it may not call Anello
 * (ANELLO_ERR_STATE) and should not wait. What it throws ends the communicator with ANELLO_ERR_STATE. */
typedef void (*anello_op_function_t)(void *context, void *into, const void *left, const void *right, size_t count,
                                     anello_dtype_t dtype);

typedef struct anello_op_config {
  size_t size;           /* sizeof(anello_op_config_t) */
  const char *name;      /* 1 to 63 bytes, copied; equal on all ranks, as is all below but context: else ANELLO_ERR_MISMATCH */
  anello_op_function_t function;
  void *context;         /* handed to function; must live as long as operations that use it */
  int commutes;          /* 0: operands combine in the order of ranks, 0 leftmost. Else in any fixed order */
  size_t element_bytes;  /* of the data types it takes; 0: of any size */
} anello_op_config_t;

#define ANELLO_OP_CONFIG_INITIALIZER {sizeof(anello_op_config_t), NULL, NULL, NULL, 1, 0}

/* Makes an operation for any communicator of this process. *op is used as the enumerators above are. */
ANELLO_API anello_result_t anello_op_create(const anello_op_config_t *config, anello_op_t *op);
/* A sum to which each rank's input is multiplied by *scalar first, which is read here and may differ from rank to rank. Of
 * integers, floats and complex numbers. dtype, of the scalar: that of the calls, or for floats and complex numbers
 * also ANELLO_FLOAT32 or ANELLO_FLOAT64. 16- and 8-bit floats are multiplied and added in float32 and rounded once. */
ANELLO_API anello_result_t anello_op_create_premul_sum(const void *scalar, anello_dtype_t dtype, anello_op_t *op);
/* Operations under way keep it; a persistent request needs it whenever it is started. */
ANELLO_API anello_result_t anello_op_free(anello_op_t op);

/* ---- Kinds of calls --------------------------------------------------------------------------------------- */

typedef ANELLO_ENUM(anello_kind) {
  ANELLO_ALLREDUCE = 0,
  ANELLO_BROADCAST = 1,
  ANELLO_ALLGATHER = 2,
  ANELLO_REDUCE_SCATTER_BLOCK = 3,
  ANELLO_BARRIER = 4,
  ANELLO_SEND = 5,
  ANELLO_RECV = 6,
  ANELLO_REDUCE = 7,
  ANELLO_GATHER = 8,
  ANELLO_SCATTER = 9,
  ANELLO_ALLTOALL = 10,
  ANELLO_SCAN = 11,
  ANELLO_EXSCAN = 12,
  ANELLO_ALLGATHERV = 13,
  ANELLO_GATHERV = 14,
  ANELLO_SCATTERV = 15,
  ANELLO_REDUCE_SCATTER = 16,
  ANELLO_ALLTOALLV = 17,
  ANELLO_PROBE = 64  /* complete when there is a message; its status tells of it */
} anello_kind_t;

/* ---- Handles ---------------------------------------------------------------------------------------------- */

/* Opaque. A handle that was destroyed is recognised (ANELLO_ERR_STATE), not dereferenced. */
typedef struct anello_comm_handle *anello_comm_t;
typedef struct anello_request_handle *anello_request_t;
typedef struct anello_message_handle *anello_message_t;
typedef struct anello_window_handle *anello_window_t;
#define ANELLO_COMM_NULL ((anello_comm_t)0)
#define ANELLO_REQUEST_NULL ((anello_request_t)0)
#define ANELLO_MESSAGE_NULL ((anello_message_t)0)
#define ANELLO_WINDOW_NULL ((anello_window_t)0)

/* As sendbuf: the input is taken from recvbuf. (scatter and scatterv take it as the root's recvbuf.) The address of a
 * private object, so no buffer can equal it. */
ANELLO_API extern const char anello_in_place_marker;
#define ANELLO_IN_PLACE ((const void *)&anello_in_place_marker)

#define ANELLO_ANY_SOURCE (-1)
#define ANELLO_ANY_TAG (-1)
/* As dest or source: nobody. What is sent to it or received from it is complete at once and moves nothing; the status
 * then has it as source, ANELLO_ANY_TAG and a count of 0. */
#define ANELLO_RANK_NULL (-2)
/* As the colour of anello_comm_split: this rank joins no new communicator. */
#define ANELLO_UNDEFINED (-32766)

/* ---- Creation --------------------------------------------------------------------------------------------- */

/* Where ranks meet. A process that holds an id may start any number of ranks with it; treat it as a secret. */
typedef struct anello_unique_id {
  unsigned char bytes[128];
} anello_unique_id_t;

/* Makes an id and starts to listen for the ranks that will come with it, in this process, until they have met.
 * Hand the 128 bytes to every rank by any private means. One id serves one anello_comm_create of each rank. */
ANELLO_API anello_result_t anello_unique_id_create(anello_unique_id_t *id);

/* The caller's key-value store, used only inside anello_comm_create. Trusted as far as the caller trusts it:
 * the job's secret travels through it. Both return 0 on success.
 * set: publishes value under key, once. get: waits at most timeout_ms for key and copies at most *bytes of its
 * value to value, then sets *bytes to the copied length. Both are called from the creating thread only. */
typedef struct anello_store {
  void *context;
  int (*set)(void *context, const char *key, const void *value, size_t bytes);
  int (*get)(void *context, const char *key, void *value, size_t *bytes, int64_t timeout_ms);
} anello_store_t;

typedef struct anello_config {
  size_t size;            /* sizeof(anello_config_t) of the caller's header; set by ANELLO_CONFIG_INITIALIZER */
  int rank;               /* -1: from the environment */
  int world_size;         /* -1: from the environment */
  const char *url;        /* NULL: env://. Else env://, tcp://host:port or unix://name (one host, abstract) */
  const anello_unique_id_t *unique_id;  /* when set, url and store are not used */
  const anello_store_t *store;          /* when set, url is not used */
  int64_t timeout_ms;     /* deadline of every wait, from the last progress. 0: ANELLO_TIMEOUT_MS, else 300 s */
  const char *transports; /* NULL: ANELLO_TRANSPORT, else all. Else those that may be used, "shm,tcp" */
  int64_t silence_ms;     /* how long another host may be silent before its ranks are lost. Anello's own thread answers, so
                             a rank may compute. 0: ANELLO_SILENCE_MS, else 2 s; -1: for ever. Rank 0's counts */
} anello_config_t;

#define ANELLO_CONFIG_INITIALIZER {sizeof(anello_config_t), -1, -1, NULL, NULL, NULL, 0, NULL, 0}

/* Joins this rank to the others that come to the same meeting place; returns when all have met, or when the
 * deadline has passed (ANELLO_ERR_RENDEZVOUS: the text lists the ranks that are missing), or as soon as two ranks
 * claim one number or differ about the size (both are named, with host and pid, on every rank).
 * config: NULL for all from the environment: RANK and WORLD_SIZE, else OMPI_COMM_WORLD_*, PMI_*, SLURM_*; meeting
 * place MASTER_ADDR and MASTER_PORT; see docs/environment.md. Without any of these the rank is alone (size 1).
 * Creation errors: anello_last_error(ANELLO_COMM_NULL), of the calling thread. */
ANELLO_API anello_result_t anello_comm_create(const anello_config_t *config, anello_comm_t *comm);

/* Makes count ranks inside this process in one call, comms[i] being rank i, for count threads. */
ANELLO_API anello_result_t anello_comm_create_all(int count, anello_comm_t *comms);

/* As anello_comm_create, on a thread of Anello's own: *comm is set when the request is completed. What config points to is
 * copied, but for a store's context; its functions are called on that thread. */
ANELLO_API anello_result_t anello_comm_icreate(const anello_config_t *config, anello_comm_t *comm,
                                               anello_request_t *request);

/* Collective over comm. dup: the same ranks, separate order of operations. split: ranks with equal colour
 * (>= 0, or ANELLO_UNDEFINED for none: *result is then ANELLO_COMM_NULL) join, ordered by key, then by rank. split_host:
 * ranks of one host join. The nonblocking forms take their place in the order where they are called, and set *result when
 * the request is completed. A communicator costs each of its ranks 40 KiB, 80 bytes for each rank in it and a little more for those it
 * exchanges messages with, and on one host 49 KiB of shared memory for each rank there. */
ANELLO_API anello_result_t anello_comm_dup(anello_comm_t comm, anello_comm_t *result);
ANELLO_API anello_result_t anello_comm_split(anello_comm_t comm, int color, int key, anello_comm_t *result);
ANELLO_API anello_result_t anello_comm_split_host(anello_comm_t comm, int key, anello_comm_t *result);
ANELLO_API anello_result_t anello_comm_idup(anello_comm_t comm, anello_comm_t *result, anello_request_t *request);
ANELLO_API anello_result_t anello_comm_isplit(anello_comm_t comm, int color, int key, anello_comm_t *result,
                                              anello_request_t *request);

/* Called by the ranks of comm in the list alone, all with the same list; ranks[i] becomes rank i. Outside the order of
 * collectives: several groups may be made at once, from several threads, where a rank that is in two of them gives each another
 * tag (0..2^30-1). Lists that differ are ANELLO_ERR_MISMATCH, and comm goes on; a rank that does not call is a deadline. */
ANELLO_API anello_result_t anello_comm_create_group(anello_comm_t comm, int count, const int *ranks, int tag,
                                                    anello_comm_t *result);

/* Local: needs no other rank; ANELLO_COMM_NULL is ANELLO_OK. Operations still in flight end with ANELLO_ERR_STATE and their
 * requests stay valid until waited for. What this rank had sent still arrives; peers that wait for more from this rank get
 * ANELLO_ERR_PEER_LOST. Returns the communicator's first error where it failed before (the handle is gone all the
 * same), which is how a rank whose last call had returned too early to see a mismatch learns of it. */
ANELLO_API anello_result_t anello_comm_destroy(anello_comm_t comm);

/* Local, from any thread: ends all operations of comm here and on all its ranks with ANELLO_ERR_ABORTED, in
 * bounded time, also while other threads are inside calls on comm. reason: may be NULL; passed on to all. */
ANELLO_API anello_result_t anello_comm_abort(anello_comm_t comm, const char *reason);

/* This rank's number in comm, and how many there are. */
ANELLO_API anello_result_t anello_comm_rank(anello_comm_t comm, int *rank);
ANELLO_API anello_result_t anello_comm_size(anello_comm_t comm, int *size);
/* Among the ranks of comm that run on this rank's host. */
ANELLO_API anello_result_t anello_comm_local_rank(anello_comm_t comm, int *local_rank);
ANELLO_API anello_result_t anello_comm_local_size(anello_comm_t comm, int *local_size);
/* The transport that carries data to peer: "self", "inproc", "shm" or "tcp". Static. */
ANELLO_API anello_result_t anello_comm_transport(anello_comm_t comm, int peer, const char **name);

/* The text of this thread's last failed call on comm; before any, of the first failure of comm itself;
 * with ANELLO_COMM_NULL of the last failure of this thread on no communicator. "" if none. Valid until the
 * calling thread calls Anello again. */
ANELLO_API const char *anello_last_error(anello_comm_t comm);

/* What anello_last_error's text tells, in fields. Pointers are valid until the calling thread calls Anello again. Grows at
 * its end. */
typedef struct anello_error {
  size_t size;          /* sizeof(anello_error_t) */
  anello_result_t code; /* ANELLO_OK: nothing has failed */
  const char *text;     /* as of anello_last_error */
  int rank;             /* of comm (of the job for ANELLO_COMM_NULL), whom it is about; -1: nobody, or not known */
  const char *host;     /* that rank's, "" where rank is -1 or was never met */
  int64_t pid;          /* likewise, as its host counts; 0 */
  const int *lost;      /* all ranks of comm that are known by now to have died or to be out of reach, rising; NULL: none */
  size_t lost_count;
  const char *call;     /* "allreduce": the call that failed; NULL where it was no call of anello_kind_t */
  anello_kind_t kind;   /* its kind, where call is not NULL */
  int64_t sequence;     /* of a collective: its number in comm's order; -1 of messages and of calls that were refused */
  const char *label;    /* its label; "" */
  const int *suspected; /* ranks of comm, not lost, that are stopped or whose host is silent now, rising; NULL: none */
  size_t suspected_count;
} anello_error_t;

#define ANELLO_ERROR_INITIALIZER \
  {sizeof(anello_error_t), ANELLO_OK, "", -1, "", 0, NULL, 0, NULL, ANELLO_BARRIER, -1, "", NULL, 0}

/* Of the failure whose text anello_last_error(comm) would give; leaves that as it is. Ranks that died after it are in the
 * list, too. Where nothing has failed the code is ANELLO_OK; the lists are as of now all the same. */
ANELLO_API anello_result_t anello_error_info(anello_comm_t comm, anello_error_t *error);

/* ---- Collectives ------------------------------------------------------------------------------------------ */

/* In place, one buffer holds what a rank hands in and what it gets. It is said by a marker, as in MPI, or by address, as in
 * NCCL, by each rank for itself, and in all forms of a call: blocking, nonblocking, persistent, in a group. Any other overlap
 * is ANELLO_ERR_ARGUMENT.
 *
 *                                  marker (MPI)                       by address (NCCL)
 *   allreduce, scan, exscan        sendbuf ANELLO_IN_PLACE            sendbuf == recvbuf
 *   reduce, at root                sendbuf ANELLO_IN_PLACE            sendbuf == recvbuf
 *   alltoall, alltoallv            sendbuf ANELLO_IN_PLACE            sendbuf == recvbuf
 *   allgather; gather, at root     sendbuf ANELLO_IN_PLACE            sendbuf == recvbuf + rank * count
 *   allgatherv; gatherv, at root   sendbuf ANELLO_IN_PLACE            sendbuf == recvbuf + displs[rank]
 *   scatter, at root               recvbuf (void *)ANELLO_IN_PLACE    recvbuf == sendbuf + rank * count
 *   scatterv, at root              recvbuf (void *)ANELLO_IN_PLACE    recvbuf == sendbuf + displs[rank]
 *   reduce_scatter_block           sendbuf ANELLO_IN_PLACE            recvbuf == sendbuf + rank * count
 *   reduce_scatter                 sendbuf ANELLO_IN_PLACE            recvbuf == sendbuf + recvcounts[0] + .. [rank - 1]
 *
 * broadcast has one buffer. Of the reduce_scatters the marker means that recvbuf has all of the input, whose beginning becomes the
 * result; the address, that the result replaces this rank's part of sendbuf and the other parts stay as they are. */

/* recvbuf[i] = op over ranks r of sendbuf_r[i], i < count, on every rank. In place: sendbuf ANELLO_IN_PLACE or
 * equal to recvbuf. */
ANELLO_API anello_result_t anello_allreduce(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_op_t op, anello_comm_t comm);

/* buffer of every rank becomes root's. Root may return before the others have received. */
ANELLO_API anello_result_t anello_broadcast(void *buffer, size_t count, anello_dtype_t dtype, int root,
                                            anello_comm_t comm);

/* recvbuf (count * size elements) holds rank r's sendbuf (count elements) at r * count. In place: the input is
 * at recvbuf + rank * count already, and sendbuf is ANELLO_IN_PLACE or that address. */
ANELLO_API anello_result_t anello_allgather(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_comm_t comm);

/* recvbuf (count elements) = elements rank*count.. of the reduction of all sendbufs (count * size elements).
 * In place: with sendbuf ANELLO_IN_PLACE recvbuf has count * size elements, the input, whose first count become the result
 * and whose others are unspecified afterwards; or recvbuf is sendbuf + rank * count, and nothing else of sendbuf changes. */
ANELLO_API anello_result_t anello_reduce_scatter_block(const void *sendbuf, void *recvbuf, size_t count,
                                                       anello_dtype_t dtype, anello_op_t op, anello_comm_t comm);

/* On root, recvbuf[i] = op over ranks r of sendbuf_r[i], i < count; the others' recvbuf is not looked at. In place, at
 * root only: sendbuf is ANELLO_IN_PLACE or equal to recvbuf. A rank other than root may return before the others have
 * called. */
ANELLO_API anello_result_t anello_reduce(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                         anello_op_t op, int root, anello_comm_t comm);

/* Root's recvbuf (count * size elements) holds rank r's sendbuf (count elements) at r * count; the others' recvbuf is not
 * looked at. In place, at root only: its own part is at recvbuf + root * count already, and sendbuf is ANELLO_IN_PLACE
 * or that address. A rank other than root may return before the others have called. */
ANELLO_API anello_result_t anello_gather(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                         int root, anello_comm_t comm);

/* recvbuf (count elements) = elements rank*count.. of root's sendbuf (count * size elements); the others' sendbuf is not
 * looked at. In place, at root only: recvbuf is (void *)ANELLO_IN_PLACE or sendbuf + root * count, and root's part stays
 * where it is. Root may return before the others have called. */
ANELLO_API anello_result_t anello_scatter(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                          int root, anello_comm_t comm);

/* recvbuf (count * size elements) holds at r * count what rank r's sendbuf (count * size elements) holds at
 * rank * count. In place: sendbuf is ANELLO_IN_PLACE or equal to recvbuf, equally or not on different ranks. */
ANELLO_API anello_result_t anello_alltoall(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                           anello_comm_t comm);

/* recvbuf[i] = op over ranks r <= rank (scan) or r < rank (exscan) of sendbuf_r[i], i < count. exscan leaves rank 0's
 * recvbuf as it is; it may be NULL there unless the input lies in it. In place: sendbuf is ANELLO_IN_PLACE or equal to
 * recvbuf. ANELLO_AVG is ANELLO_ERR_TYPE. A rank may return before those above it have called. */
ANELLO_API anello_result_t anello_scan(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                       anello_op_t op, anello_comm_t comm);
ANELLO_API anello_result_t anello_exscan(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                         anello_op_t op, anello_comm_t comm);

/* Returns after every rank has called it. */
ANELLO_API anello_result_t anello_barrier(anello_comm_t comm);

/* ---- Collectives whose parts differ in count --------------------------------------------------------------- */

/* Counts and displacements are arrays of size entries, in elements; displacements say where in the buffer a rank's part
 * begins. They are read during the call only, also by the nonblocking forms. Parts that are written may not overlap; an
 * empty part may be said to lie anywhere. What all ranks must say alike (the arrays of allgatherv's and reduce_scatter's
 * counts) is compared as the rest of a call is. Where only the two ranks of a pair know a count and differ, both sides'
 * communicator gets ANELLO_ERR_MISMATCH, which names both counts. */

/* recvbuf holds recvcounts[r] elements of rank r at displs[r]; sendcount is recvcounts[rank]. In place: this rank's
 * part is there already, and sendbuf is ANELLO_IN_PLACE or its address; sendcount is not looked at. */
ANELLO_API anello_result_t anello_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
                                             const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype,
                                             anello_comm_t comm);

/* The same on root only, where alone recvbuf, recvcounts and displs are looked at. Each rank's sendcount must be root's
 * recvcounts of it. In place, at root only, as allgatherv. A rank other than root may return before the others have
 * called. */
ANELLO_API anello_result_t anello_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
                                          const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype, int root,
                                          anello_comm_t comm);

/* Rank r gets sendcounts[r] elements at displs[r] of root's sendbuf; sendbuf, sendcounts and displs are looked at on root
 * only. Each rank's recvcount must be root's sendcounts of it. In place, at root only: recvbuf is (void *)ANELLO_IN_PLACE
 * or sendbuf + displs[root]; recvcount is not looked at there. Root may return before the others have called. */
ANELLO_API anello_result_t anello_scatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
                                           void *recvbuf, size_t recvcount, anello_dtype_t dtype, int root,
                                           anello_comm_t comm);

/* The reduction of all sendbufs is cut into parts of recvcounts[0], recvcounts[1], .. elements; recvbuf gets the one of
 * this rank. In place: with sendbuf ANELLO_IN_PLACE recvbuf has all of the input, whose first recvcounts[rank] elements become
 * the result and whose others are unspecified afterwards; or recvbuf is the address of this rank's part in sendbuf, and
 * nothing else of sendbuf changes. */
ANELLO_API anello_result_t anello_reduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
                                                 anello_dtype_t dtype, anello_op_t op, anello_comm_t comm);

/* Rank r's part of sendbuf, sendcounts[r] elements at sdispls[r], goes to where r's rdispls has this rank's. A pair of
 * ranks must agree on what goes each way. In place: sendbuf is ANELLO_IN_PLACE or equal to recvbuf, which holds the parts
 * to send where those received come to; sendcounts and sdispls are not looked at. */
ANELLO_API anello_result_t anello_alltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
                                            void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
                                            anello_dtype_t dtype, anello_comm_t comm);

/* ---- Point to point --------------------------------------------------------------------------------------- */

typedef struct anello_status {
  int source;
  int tag;
  size_t count; /* elements received */
} anello_status_t;

/* Messages between two ranks with matching tags (0..2^30-1) arrive in order. send may return before the receiver
 * has posted. Of up to 4 KiB it does not wait for that unless such messages, with 64 bytes for each, fill more than 384 KiB
 * that this rank has sent the receiver on this communicator and no receive has taken.
 * recv: source may be ANELLO_ANY_SOURCE and tag ANELLO_ANY_TAG; count is the room; a longer message is
 * ANELLO_ERR_TRUNCATE for this receive only. status may be NULL. Sending to oneself works. */
ANELLO_API anello_result_t anello_send(const void *buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                       anello_comm_t comm);
ANELLO_API anello_result_t anello_recv(void *buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                       anello_comm_t comm, anello_status_t *status);

/* A send and a receive at once, each as above: neither waits for the other, so that all ranks of a ring may call it.
 * The two buffers may not overlap; either peer may be ANELLO_RANK_NULL. status: of the receive, may be NULL. */
ANELLO_API anello_result_t anello_sendrecv(const void *sendbuf, size_t sendcount, int dest, int sendtag, void *recvbuf,
                                           size_t recvcount, int source, int recvtag, anello_dtype_t dtype,
                                           anello_comm_t comm, anello_status_t *status);

/* Tells of the first message that a recv with this source and tag would take now, and leaves it there: status (may be
 * NULL) has its source, tag, and its count in elements of the type it was sent as. probe waits for one; iprobe looks
 * once, *flag says whether there is one. */
ANELLO_API anello_result_t anello_probe(int source, int tag, anello_comm_t comm, anello_status_t *status);
ANELLO_API anello_result_t anello_iprobe(int source, int tag, anello_comm_t comm, int *flag, anello_status_t *status);

/* The same, and takes the message out of the sight of all other probes and receives, also those of other threads: it is
 * received by anello_mrecv or anello_imrecv with *message alone, which set *message to ANELLO_MESSAGE_NULL. One that is
 * never received is dropped with its communicator. */
ANELLO_API anello_result_t anello_mprobe(int source, int tag, anello_comm_t comm, anello_message_t *message,
                                         anello_status_t *status);
ANELLO_API anello_result_t anello_improbe(int source, int tag, anello_comm_t comm, int *flag, anello_message_t *message,
                                          anello_status_t *status);
ANELLO_API anello_result_t anello_mrecv(void *buffer, size_t count, anello_dtype_t dtype, anello_message_t *message,
                                        anello_status_t *status);
ANELLO_API anello_result_t anello_imrecv(void *buffer, size_t count, anello_dtype_t dtype, anello_message_t *message,
                                         anello_request_t *request);

/* ---- Nonblocking ------------------------------------------------------------------------------------------ */

/* Each posts the operation of its name and returns; *request completes it. Any number may be in flight. */
ANELLO_API anello_result_t anello_iallreduce(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                             anello_op_t op, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_ibroadcast(void *buffer, size_t count, anello_dtype_t dtype, int root,
                                             anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_iallgather(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                             anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_ireduce_scatter_block(const void *sendbuf, void *recvbuf, size_t count,
                                                        anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                                        anello_request_t *request);
ANELLO_API anello_result_t anello_ireduce(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                          anello_op_t op, int root, anello_comm_t comm,
                                          anello_request_t *request);
ANELLO_API anello_result_t anello_igather(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                          int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_iscatter(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                           int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_ialltoall(const void *sendbuf, void *recvbuf, size_t count,
                                            anello_dtype_t dtype, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_iscan(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                        anello_op_t op, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_iexscan(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                          anello_op_t op, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_iallgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
                                              const size_t *recvcounts, const size_t *displs,
                                              anello_dtype_t dtype, anello_comm_t comm,
                                              anello_request_t *request);
ANELLO_API anello_result_t anello_igatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
                                           const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype,
                                           int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_iscatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
                                            void *recvbuf, size_t recvcount, anello_dtype_t dtype, int root,
                                            anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_ireduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
                                                  anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                                  anello_request_t *request);
ANELLO_API anello_result_t anello_ialltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
                                             void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
                                             anello_dtype_t dtype, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_ibarrier(anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_isend(const void *buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                        anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_irecv(void *buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                        anello_comm_t comm, anello_request_t *request);
/* One request for both: complete when the receive and the send are, with the receive's status. */
ANELLO_API anello_result_t anello_isendrecv(const void *sendbuf, size_t sendcount, int dest, int sendtag, void *recvbuf,
                                            size_t recvcount, int source, int recvtag, anello_dtype_t dtype,
                                            anello_comm_t comm, anello_request_t *request);

/* wait returns the operation's result and sets *request to ANELLO_REQUEST_NULL. test does not block: *done says
 * whether it completed; only then is the request consumed and the operation's result returned. A null request
 * is complete with ANELLO_OK. status may be NULL; it is set for receives and probes only. */
ANELLO_API anello_result_t anello_wait(anello_request_t *request, anello_status_t *status);
ANELLO_API anello_result_t anello_test(anello_request_t *request, int *done, anello_status_t *status);

/* Over count requests, null ones skipped. statuses: NULL or count entries.
 * all: returns when all are complete, with the first failed one's result. any: *index is one that completed
 * (-1 if all were null), with its result. some: at least one (wait) or none (test) or more; *done of them, their
 * indices in indices[0..*done-1] and statuses in the same places; *done is -1 if all were null. */
ANELLO_API anello_result_t anello_wait_all(size_t count, anello_request_t *requests, anello_status_t *statuses);
ANELLO_API anello_result_t anello_wait_any(size_t count, anello_request_t *requests, int *index,
                                           anello_status_t *status);
ANELLO_API anello_result_t anello_wait_some(size_t count, anello_request_t *requests, int *done, int *indices,
                                            anello_status_t *statuses);
ANELLO_API anello_result_t anello_test_all(size_t count, anello_request_t *requests, int *done,
                                           anello_status_t *statuses);
ANELLO_API anello_result_t anello_test_any(size_t count, anello_request_t *requests, int *index, int *done,
                                           anello_status_t *status);
ANELLO_API anello_result_t anello_test_some(size_t count, anello_request_t *requests, int *done, int *indices,
                                            anello_status_t *statuses);

/* Between begin and end of one thread, calls that would wait are posted and return at once, whatever communicator they are
 * on: collectives, send, recv, sendrecv, mrecv, and comm_create, dup, split and split_host. end waits for all of them
 * together and returns the first failure in the order of posting; buffers, statuses, *comm and *result are valid from then
 * on. So one thread may be several ranks, and sends and receives of a group need no order. Groups may be nested: the
 * outermost end waits. probe, mprobe, comm_create_group and windows are ANELLO_ERR_STATE inside. */
ANELLO_API anello_result_t anello_group_begin(void);
ANELLO_API anello_result_t anello_group_end(void);

/* For event loops. *descriptor becomes readable when an operation of this rank has ended, on whatever communicator that
 * was made from the same one; it belongs to Anello, which progresses what is under way by itself. progress, without blocking,
 * makes it unreadable, moves what can move, and looks at deadlines: call it when it is readable and, for those, now and then;
 * afterwards anello_test finds what has ended. */
ANELLO_API anello_result_t anello_comm_descriptor(anello_comm_t comm, int *descriptor);
ANELLO_API anello_result_t anello_progress(anello_comm_t comm);

/* ---- Persistent ------------------------------------------------------------------------------------------- */

/* Each checks its arguments and keeps them in *request, arrays of counts too, inactive; nothing else happens, on no other
 * rank. start posts the call, as the nonblocking one of its name would, and takes its place in the order of collectives
 * there; wait and test complete it and leave the request inactive, to be started again. An inactive request is to wait and
 * test what a null one is, but stays. It belongs to the caller until anello_request_free, also after its communicator was
 * destroyed.
 * start of an active request and request_free of one are ANELLO_ERR_STATE; both use a request from one thread at a time.
 * start_all starts them in order and stops at the first that fails. */
ANELLO_API anello_result_t anello_allreduce_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                                 anello_op_t op, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_broadcast_init(void *buffer, size_t count, anello_dtype_t dtype, int root,
                                                 anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_allgather_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                                 anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, size_t count,
                                                            anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                                            anello_request_t *request);
ANELLO_API anello_result_t anello_reduce_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                              anello_op_t op, int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_gather_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                              int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_scatter_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                               int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_alltoall_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                                anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_scan_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_op_t op, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_exscan_init(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                              anello_op_t op, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_allgatherv_init(const void *sendbuf, size_t sendcount, void *recvbuf,
                                                  const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype,
                                                  anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_gatherv_init(const void *sendbuf, size_t sendcount, void *recvbuf,
                                               const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype,
                                               int root, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_scatterv_init(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
                                                void *recvbuf, size_t recvcount, anello_dtype_t dtype, int root,
                                                anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_reduce_scatter_init(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
                                                      anello_dtype_t dtype, anello_op_t op, anello_comm_t comm,
                                                      anello_request_t *request);
ANELLO_API anello_result_t anello_alltoallv_init(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
                                                 void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
                                                 anello_dtype_t dtype, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_barrier_init(anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_send_init(const void *buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                            anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_recv_init(void *buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                            anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_sendrecv_init(const void *sendbuf, size_t sendcount, int dest, int sendtag,
                                                void *recvbuf, size_t recvcount, int source, int recvtag,
                                                anello_dtype_t dtype, anello_comm_t comm, anello_request_t *request);
ANELLO_API anello_result_t anello_start(anello_request_t *request);
ANELLO_API anello_result_t anello_start_all(size_t count, anello_request_t *requests);
/* Gives an inactive persistent request back and sets it to ANELLO_REQUEST_NULL; null is ANELLO_OK. */
ANELLO_API anello_result_t anello_request_free(anello_request_t *request);

/* ---- Memory ----------------------------------------------------------------------------------------------- */

/* Zeroed memory, on a page boundary, that ranks of this host map into their own address space when they first meet it as
 * the buffer of a collective call: then each loads what it needs from where it lies and stores results where they belong,
 * without a copy in between; of calls other than an all-reduce only as long as that is not slow (docs/environment.md:
 * ANELLO_STAGING). As fit as any other memory for everything else; a part of it, at any offset, is a buffer like the whole.
 * It is there at once: where the machine, or the process's group, has no such amount left, the result is
 * ANELLO_ERR_RESOURCE, and no process is killed later. Independent of communicators; any thread. A forked child may use it,
 * and shares it with its parent.
 * mem_free: NULL is ANELLO_OK. Not while a call that uses it is under way. Memory that was not freed ends with the process. */
ANELLO_API anello_result_t anello_mem_alloc(size_t bytes, void **pointer);
ANELLO_API anello_result_t anello_mem_free(void *pointer);

#define ANELLO_MEM_HUGE_PAGES 1u /* asks the kernel for transparent ones: a wish */

typedef struct anello_mem_options {
  size_t size;    /* sizeof(anello_mem_options_t) */
  unsigned flags; /* ANELLO_MEM_.. or 0 */
  int numa_node;  /* that its pages shall lie on; -1: as they come */
} anello_mem_options_t;
#define ANELLO_MEM_OPTIONS_INITIALIZER {sizeof(anello_mem_options_t), 0, -1}

/* The same with wishes. A NUMA node that is not there is ANELLO_ERR_ARGUMENT, one that has not so much left ANELLO_ERR_RESOURCE.
 * Huge pages come where the kernel's transparent_hugepage/shmem_enabled is advise, within_size or always. */
ANELLO_API anello_result_t anello_mem_alloc_with(size_t bytes, const anello_mem_options_t *options, void **pointer);

/* Makes of the caller's own memory such as anello_mem_alloc gives: its pages are exchanged for ones that ranks of this host can
 * map, with the same contents at the same addresses. Costs a copy. address and bytes are multiples of the page size
 * (aligned_alloc, mmap); the memory is this process's alone and may be written: heap or anonymous mapping, but no file's, no
 * stack, nothing registered or of anello_mem_alloc; else ANELLO_ERR_ARGUMENT says which. No other thread uses it meanwhile, and
 * no device or kernel interface that has pinned its pages does so later (CUDA, RDMA, io_uring). A process forked from then on
 * shares it with its parent. ANELLO_ERR_RESOURCE: no memory for the copy; nothing has changed. */
ANELLO_API anello_result_t anello_register(void *address, size_t bytes);
/* Gives the memory pages of its own again. address is the registered one's begin. Before the memory is freed or unmapped
 * (peers would go on with pages that are no longer there, and results be wrong), and not while a call that uses it is under
 * way. NULL is ANELLO_OK. */
ANELLO_API anello_result_t anello_deregister(void *address);

/* ---- Windows ---------------------------------------------------------------------------------------------- */

/* Collective: memory of each rank, bytes of it (each its own number, 0 too), zeroed, at *base, aligned to a page, that ranks
 * of the same host reach by a pointer of their own. Where one rank has no memory, all get ANELLO_ERR_RESOURCE. As fit as
 * any other memory for every buffer. Who writes into another's part orders that against its reading by messages or
 * collectives. */
ANELLO_API anello_result_t anello_window_create(size_t bytes, anello_comm_t comm, void **base, anello_window_t *window);
/* Collective: the same of memory that each rank has already and keeps until the window is freed. Others reach it where it is
 * memory of their own process, or lies in a window of anello_window_create. */
ANELLO_API anello_result_t anello_window_register(void *base, size_t bytes, anello_comm_t comm, anello_window_t *window);
/* Where rank's part lies in this process, and its size (bytes may be NULL). *pointer is NULL where it is not mapped: on
 * another host, where memory cannot be shared or was none of Anello's, or of 0 bytes. Mapped when first asked for. */
ANELLO_API anello_result_t anello_window_peer(anello_window_t window, int rank, void **pointer, size_t *bytes);
/* Collective: once every rank has called it, no pointer into the window may be used. Always gives this rank's memory back and
 * sets *window to ANELLO_WINDOW_NULL, also where it returns an error because the communicator has failed or was destroyed,
 * in which case the ranks do not wait for each other. Null is ANELLO_OK. */
ANELLO_API anello_result_t anello_window_free(anello_window_t *window);

/* ---- The one call under all of the above ------------------------------------------------------------------ */

/* Fields that a kind has no use for are ignored. Grows at its end; size says how much the caller knew. */
typedef struct anello_call {
  size_t size;          /* sizeof(anello_call_t) */
  anello_kind_t kind;
  anello_dtype_t dtype;
  anello_op_t op;
  int peer;             /* root, destination or source */
  int tag;
  const void *sendbuf;  /* broadcast: on the root, its buffer */
  void *recvbuf;        /* broadcast: the buffer */
  size_t count;
  int64_t timeout_ms;   /* 0: the communicator's */
  const size_t *sendcounts;  /* scatterv, alltoallv; NULL in other kinds, as the next three may be */
  const size_t *sdispls;     /* scatterv, alltoallv */
  const size_t *recvcounts;  /* allgatherv, gatherv, reduce_scatter, alltoallv */
  const size_t *rdispls;     /* allgatherv, gatherv, alltoallv */
  const char *algorithm;     /* of a collective; NULL: ANELLO_ALGORITHM or the library's choice. Equal on all ranks */
  const char *label;         /* NULL, or the caller's name for the call, for texts, hooks and logs; each rank's own */
} anello_call_t;

#define ANELLO_CALL_INITIALIZER \
  {sizeof(anello_call_t), ANELLO_BARRIER, ANELLO_UINT8, ANELLO_SUM, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, \
   NULL, NULL}

/* Posts call. request NULL: blocks until it is complete and returns its result. Both strings are read during the call
 * only, of label the first 63 bytes. An algorithm that there is not, or that does not fit the call, is
 * ANELLO_ERR_ARGUMENT; the text lists those that fit. */
ANELLO_API anello_result_t anello_post(anello_comm_t comm, const anello_call_t *call, anello_request_t *request);
/* Makes a persistent request of call. */
ANELLO_API anello_result_t anello_post_init(anello_comm_t comm, const anello_call_t *call, anello_request_t *request);

/* ---- Explaining ------------------------------------------------------------------------------------------- */

/* What call would do on this rank if it were posted now, as JSON, without doing it; needs no other rank. Buffers may be
 * NULL: all that is looked at is whether the call is in place. At most capacity bytes go to json, with the 0 at their end;
 * *length is that of the whole text without it. json NULL and capacity 0 ask for the length alone; a capacity that is too
 * small is ANELLO_ERR_TRUNCATE, with *length set. An object of
 *   kind, label; rank, ranks
 * and of a message or probe
 *   peer, tag, bytes {sent, received}, transport, protocol: "eager" (sent at once) or "announced" (when the receive is posted)
 *   taken {mapped, read}: of the communicator's messages so far, how many this rank has copied from where they lay: in memory of
 *     anello_mem_alloc or anello_register, or in any other, by system call. Over shm they are offered to the receiver in place of
 *     either: from there 8 KiB to 8 MiB, of other memory from 8 KiB to 1 MiB, and where ranks share processors all of 48 KiB to 8 MiB
 * of a collective
 *   count, dtype, op, element_bytes (of an element on its way), in_place, root (null where there is none)
 *   algorithm; why: a sentence; rule: that line of the library's table {number, measured (true: of the table that
 *     ANELLO_TUNING names), algorithm, where, reach (what ranks must be able to do with each other's buffers: "none", "read" or
 *     "store"), from_bytes, up_to_bytes, up_to_bytes_total}, null where another wish decided
 *   board: all ranks exchange their payloads over a page in shared memory, in one step and without messages
 *   chunk_bytes; chunks: of each rank's block, or of the vector where that is not cut into blocks
 *   steps, messages (sent)
 *   bytes {sent, received, reduced, copied}: of this rank. Over the board sent is written once for all to read
 *   peers: [{rank, transport, sent, received, messages}] that messages go to or come from
 *   expected_seconds: a rough guess for comparing; null where only others know their counts, and of very large plans
 *   cached: the plan is there already, since a call like it was made
 *   by_reach {none, read, store}: the algorithm that is taken where ranks turn out to reach each other's buffers not at all, by
 *     reading each other's processes, or by loading and storing; all that was said above is of "none"
 *   reached {none, read, store}: of the communicator's calls so far whose ranks looked for it, how many turned out so */
ANELLO_API anello_result_t anello_explain(anello_comm_t comm, const anello_call_t *call, char *json, size_t capacity,
                                          size_t *length);

/* ---- Watching: hooks and log ------------------------------------------------------------------------------ */

typedef ANELLO_ENUM(anello_phase) {
  ANELLO_POSTED = 0,   /* about to begin */
  ANELLO_COMPLETED = 1 /* its result is about to be returned to the caller */
} anello_phase_t;

/* One call, told twice. Everything in it is valid during the hook only. Grows at its end. */
typedef struct anello_hook_info {
  size_t size;            /* sizeof(anello_hook_info_t) of the library */
  anello_phase_t phase;
  anello_kind_t kind;
  const char *name;       /* of the kind: "allreduce" */
  uint64_t call;          /* this call's own number in this process, the same in both phases */
  anello_comm_t comm;     /* as the caller gave it; it may have been destroyed when a request completes */
  uint64_t comm_id;       /* the same on all ranks of comm; 1 of the one that anello_comm_create made */
  int rank;               /* this one's in comm */
  int ranks;              /* of comm in all */
  int64_t sequence;       /* of a collective: its number in comm's order, the same on all ranks; -1 of messages */
  anello_dtype_t dtype;
  anello_op_t op;
  size_t count;           /* as the caller gave it; of a completed receive or probe: of what came */
  size_t bytes;           /* of the larger of this rank's two buffers; 0 of barrier and probe */
  int peer;               /* root, destination or source; of a completed receive or probe: who sent */
  int tag;                /* likewise */
  int blocking;           /* 0: completed by wait or test */
  const char *algorithm;  /* "ring"; NULL of messages */
  const char *transport;  /* to the peer, or all that comm uses: "shm" or "shm,tcp"; "self" of a rank alone */
  const char *label;      /* "" for none */
  int64_t posted_ns;      /* CLOCK_MONOTONIC */
  int64_t completed_ns;   /* 0 while posted */
  anello_result_t result; /* ANELLO_OK while posted */
  const char *error;      /* the text of a failure, else "" */
} anello_hook_info_t;

/* before and after: called on the thread that posts, and on the one to which wait, test or the blocking call is about to
 * report completion. Either may be NULL. released: called once when nothing of these hooks will be called again. They may
 * run on several threads at once. They may not let exceptions out (which are dropped and logged), and may post nothing on
 * the communicator of the call: that is ANELLO_ERR_STATE. What they post on others is not reported. */
typedef struct anello_hooks {
  size_t size;            /* sizeof(anello_hooks_t) */
  void *context;          /* handed to each of them */
  void (*before)(void *context, const anello_hook_info_t *info);
  void (*after)(void *context, const anello_hook_info_t *info);
  void (*released)(void *context);
} anello_hooks_t;

#define ANELLO_HOOKS_INITIALIZER {sizeof(anello_hooks_t), NULL, NULL, NULL, NULL}

/* Reports every collective, message and waiting probe of this process from now on, started persistent requests too;
 * sendrecv and mrecv as what they are made of; not those refused for their arguments, nor what creates communicators.
 * hooks: copied; NULL for none. At any time, from any thread. A call that was told to earlier hooks is told to those again
 * when it completes, and not to new ones: each `before` has its `after`, unless its request is never completed. */
ANELLO_API anello_result_t anello_set_hooks(const anello_hooks_t *hooks);

typedef ANELLO_ENUM(anello_log_level) {
  ANELLO_LOG_FROM_ENVIRONMENT = -1, /* as ANELLO_LOG says */
  ANELLO_LOG_OFF = 0,
  ANELLO_LOG_ERROR = 1,
  ANELLO_LOG_WARN = 2,
  ANELLO_LOG_INFO = 3,
  ANELLO_LOG_DEBUG = 4,
  ANELLO_LOG_TRACE = 5
} anello_log_level_t;

/* One line, without its end: "[anello 3] rank 1 (host a, pid 7) over shm". text is valid during the call only. Called from any
 * thread, the library's own too, one line at a time; may call nothing of Anello. */
typedef void (*anello_log_t)(void *context, anello_log_level_t level, const char *text);

/* Hands the log to callback in place of standard error and ANELLO_LOG_FILE: lines of this level and worse. NULL gives it
 * back to them, and level is not looked at. At any time, from any thread but inside a callback; when it returns, an
 * earlier callback is not running and will not be called again. */
ANELLO_API anello_result_t anello_set_log(anello_log_t callback, void *context, anello_log_level_t level);

/* ---- About the library ------------------------------------------------------------------------------------ */

/* major * 10000 + minor * 100 + patch of the library that runs, and its source's commit ("unknown" outside git). */
ANELLO_API int anello_version(void);
ANELLO_API const char *anello_commit(void);

typedef struct anello_transport_info {
  size_t size;          /* sizeof(anello_transport_info_t) */
  const char *name;     /* static */
  char why_not[256];    /* "" when usable here, else the reason and what to do */
} anello_transport_info_t;

/* The transports built in, best first: index 0, 1, ..; ANELLO_ERR_ARGUMENT past the last. */
ANELLO_API anello_result_t anello_transport_query(int index, anello_transport_info_t *info);

#ifdef __cplusplus
}
#endif

#endif /* ANELLO_ANELLO_H */
