/* Anello: collective communication for N ranks that each hold a buffer.
 *
 * A rank is one participant, numbered 0..size-1: a process, or one thread of a process. A communicator connects ranks.
 * All of its ranks call the same collectives in the same order. Each call returns when this rank's part is done.
 *
 *   anello_comm_t comm;
 *   anello_comm_create(NULL, &comm);                                   rank and size from the environment
 *   anello_allreduce(ANELLO_IN_PLACE, x, n, ANELLO_FLOAT32, ANELLO_SUM, comm);
 *   anello_comm_destroy(comm);
 *
 * Conventions of every function below, unless its own comment says otherwise:
 *
 * Results   Every function returns anello_result_t; ANELLO_OK is 0. On failure, out-parameters are untouched, and
 *           anello_last_error says which call failed, on which rank, why, and what to do. The library never ends the
 *           process, installs no signal handler, and prints only through the log (ANELLO_LOG).
 * Sticky    A collective that is refused for its arguments (ANELLO_ERR_ARGUMENT, .._TYPE) still takes its place in the
 *           order of collectives: the other ranks get ANELLO_ERR_MISMATCH. Every other failure of an operation is final
 *           for its communicator: later calls return the same code. Other communicators continue, even those that
 *           share a connection with it.
 * Memory    Buffers belong to the caller. The caller must not touch them from the call until it returns (blocking), or
 *           until wait or test has reported completion (nonblocking). After that neither the library nor a peer touches
 *           them, even if the operation failed. After a failure the contents of receive buffers are unspecified.
 * Devices   A buffer of any collective or message may lie in the memory of a CUDA device, at any address of an
 *           allocation; a rank may have one buffer on a device and the other on the host, and other ranks theirs
 *           elsewhere. Both buffers of a call must be on one device. The call is ordered after the work of the device's
 *           default stream; wait for work on other streams first. When it is complete, the result is in the device's
 *           memory. Managed and pinned memory count as the host's. A pointer to memory that was freed, or that is too
 *           short for the count, is refused (ANELLO_ERR_ARGUMENT). Windows and anello_register take host memory.
 * Counts    Counts are elements, not bytes, as size_t. Zero is legal: buffers may then be NULL, and the call
 *           synchronises as the same call with data does.
 * Threads   Any thread may call any function, and several threads may use one communicator at once. Collectives of one
 *           communicator take their order from the order of posting. A program that posts them from several threads
 *           must order those posts itself, the same way on every rank.
 * Cancel    A thread that is cancelled (pthread_cancel) during a call finishes the call first. anello_comm_abort ends
 *           that call at once. Asynchronous cancellation must be off.
 * Time      Every wait has a deadline (ANELLO_TIMEOUT_MS, anello_config_t.timeout_ms), counted from the last progress.
 * Bits      Ranks that receive the same result receive the same bits. 16- and 8-bit floats are accumulated in float32
 *           and rounded once.
 * Fork      A forked child must not use what its parent created: every such call returns ANELLO_ERR_FORKED.
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

/* With a fixed underlying type, C++ code may pass a value that is not an enumerator. The library then refuses it. */
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
  ANELLO_ERR_TYPE = 2,        /* an unknown data type or operation, or two that do not go together */
  ANELLO_ERR_STATE = 3,       /* a handle used after destroy, or a call at the wrong moment */
  ANELLO_ERR_PEER_LOST = 4,   /* the call needs a rank that has ended or is unreachable; what it sent still counts */
  ANELLO_ERR_MISMATCH = 5,    /* ranks disagree on the call; the text names both calls if their ranks still know them */
  ANELLO_ERR_TIMEOUT = 6,     /* no progress within the deadline */
  ANELLO_ERR_RENDEZVOUS = 7,  /* ranks missing, duplicated, or disagreeing about the size */
  ANELLO_ERR_AUTH = 8,        /* a peer could not prove that it knows the job's secret */
  ANELLO_ERR_VERSION = 9,     /* a peer speaks another version of the protocol */
  ANELLO_ERR_ADDRESS = 10,    /* a name, port or interface cannot be used */
  ANELLO_ERR_RESOURCE = 11,   /* out of memory, descriptors, or a stated bound */
  ANELLO_ERR_TRUNCATE = 12,   /* a message is longer than the receive buffer */
  ANELLO_ERR_ABORTED = 13,    /* a rank called anello_comm_abort */
  ANELLO_ERR_FORKED = 14,     /* used in a forked child of the process that created it */
  ANELLO_ERR_SYSTEM = 15,     /* a system call failed; the text gives its name and errno */
  ANELLO_ERR_CORRUPT = 16,    /* an authenticated peer sent something that the protocol does not allow */
  ANELLO_ERR_INTERNAL = 17    /* a bug in Anello; please report it */
} anello_result_t;

/* The enumerator's name, for instance "ANELLO_ERR_TIMEOUT". Never NULL; a static string. */
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
  ANELLO_FLOAT8_E5M2 = 13, /* OCP E5M2: follows IEEE 754, up to 57344, then infinity */
  ANELLO_BOOL = 14,        /* one byte: 0 is false, anything else is true; results are 0 or 1 */
  ANELLO_COMPLEX64 = 15,   /* two float32: real, imaginary */
  ANELLO_COMPLEX128 = 16,  /* two float64 */
  ANELLO_BYTE = 17,        /* can be moved, not reduced */
  ANELLO_FLOAT32_INT = 18, /* this one and those below are pairs, for MINLOC and MAXLOC */
  ANELLO_FLOAT64_INT = 19,
  ANELLO_INT32_INT = 20,
  ANELLO_INT64_INT = 21
} anello_dtype_t;

/* A pair: a value and where it came from. It has 8 bytes with a 4-byte value, and 16 with an 8-byte value. In those 16
 * the last 4 bytes are padding, and are 0 in a computed pair. */
typedef struct anello_float32_int { float value; int32_t index; } anello_float32_int_t;
typedef struct anello_float64_int { double value; int32_t index; } anello_float64_int_t;
typedef struct anello_int32_int { int32_t value; int32_t index; } anello_int32_int_t;
typedef struct anello_int64_int { int64_t value; int32_t index; } anello_int64_int_t;

/* A type and an operation that do not go together (BOR of floats, MIN of complex numbers, any operation on bytes) are
 * ANELLO_ERR_TYPE. Integers wrap. MIN and MAX of floats propagate NaN, and treat -0 as less than +0. AVG is the sum
 * divided by the number of ranks, truncated towards zero for integers; it does not take bool. For bool, SUM, MAX and
 * BOR mean LOR; PROD, MIN and BAND mean LAND; BXOR means LXOR. B* (bits) and L* (0 or 1) take integers and bool. MINLOC
 * and MAXLOC take pairs and give the least or greatest value in the order of MIN and MAX: NaN wins, and among equal
 * values the lowest index wins.
 * A complex product is (ac - bd) + (ad + bc)i, without the corrections for infinities of C's annex G.
 * Rounding to 8 bits goes to nearest even. An overflow never saturates: E4M3 becomes NaN (for values above 464, never
 * 448), and E5M2 becomes infinity.
 * With one rank, the result is the unchanged input. */
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

/* The caller's own element types, as anello_dtype_t, of 1 to ANELLO_ELEMENT_MAX bytes. The library moves such elements
 * unchanged. Only the caller's own operations can reduce them. */
#define ANELLO_ELEMENT_MAX 16384
#define ANELLO_ELEMENT(bytes) ((anello_dtype_t)(0x10000 + (bytes)))

/* The bytes of one element; 0 for an unknown type. */
ANELLO_API size_t anello_dtype_size(anello_dtype_t dtype);
/* For instance "float32" and "sum". The name is "element" for ANELLO_ELEMENT, "custom" for the caller's own operations,
 * and "unknown" for anything not listed above. The strings are static. */
ANELLO_API const char *anello_dtype_name(anello_dtype_t dtype);
ANELLO_API const char *anello_op_name(anello_op_t op);

/* Computes into[i] = left[i] op right[i] for i < count. left combines lower ranks than right. into may be left or
 * right. The function must be as associative as the caller needs, and must give the same result for the same operands
 * on every rank. The thread that drives the rank calls it and holds the rank's lock; this may be the library's own
 * thread. The function must not call Anello (ANELLO_ERR_STATE) and should not wait. An exception that it throws ends
 * the communicator with ANELLO_ERR_STATE. */
typedef void (*anello_op_function_t)(void *context, void *into, const void *left, const void *right, size_t count,
                                     anello_dtype_t dtype);

typedef struct anello_op_config {
  size_t size;           /* sizeof(anello_op_config_t) */
  const char *name;      /* 1 to 63 bytes, copied; equal on all ranks, as are commutes and element_bytes: else
                            ANELLO_ERR_MISMATCH */
  anello_op_function_t function;
  void *context;         /* passed to function; must live as long as the operations that use it */
  int commutes;          /* 0: operands combine in rank order, rank 0 leftmost. Else in any fixed order */
  size_t element_bytes;  /* element size of the data types that it takes; 0: any size */
} anello_op_config_t;

#define ANELLO_OP_CONFIG_INITIALIZER {sizeof(anello_op_config_t), NULL, NULL, NULL, 1, 0}

/* Makes an operation for all communicators of this process. Use *op like the enumerators above. */
ANELLO_API anello_result_t anello_op_create(const anello_op_config_t *config, anello_op_t *op);
/* Makes a sum that first multiplies each rank's input by *scalar. This call reads the scalar, which may differ from
 * rank to rank. The sum takes integers, floats and complex numbers. dtype is the scalar's type: the type of the calls
 * or, for floats and complex numbers, also ANELLO_FLOAT32 or ANELLO_FLOAT64. 16- and 8-bit floats are multiplied and
 * added in float32 and rounded once. */
ANELLO_API anello_result_t anello_op_create_premul_sum(const void *scalar, anello_dtype_t dtype, anello_op_t *op);
/* Operations in flight can still use op. A persistent request needs op whenever it is started. */
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
  ANELLO_PROBE = 64  /* completes when there is a message; its status describes the message */
} anello_kind_t;

/* ---- Handles ---------------------------------------------------------------------------------------------- */

/* Opaque. A destroyed handle is recognised (ANELLO_ERR_STATE) and never dereferenced. */
typedef struct anello_comm_handle *anello_comm_t;
typedef struct anello_request_handle *anello_request_t;
typedef struct anello_message_handle *anello_message_t;
typedef struct anello_window_handle *anello_window_t;
#define ANELLO_COMM_NULL ((anello_comm_t)0)
#define ANELLO_REQUEST_NULL ((anello_request_t)0)
#define ANELLO_MESSAGE_NULL ((anello_message_t)0)
#define ANELLO_WINDOW_NULL ((anello_window_t)0)

/* Pass this as sendbuf if recvbuf holds the input. (scatter and scatterv take it as the root's recvbuf.) It is the
 * address of a private object, so no buffer can equal it. */
ANELLO_API extern const char anello_in_place_marker;
#define ANELLO_IN_PLACE ((const void *)&anello_in_place_marker)

#define ANELLO_ANY_SOURCE (-1)
#define ANELLO_ANY_TAG (-1)
/* As dest or source, this means no rank. A send to it or a receive from it completes at once and moves nothing. The
 * status of the receive then has it as source, ANELLO_ANY_TAG as tag, and a count of 0. */
#define ANELLO_RANK_NULL (-2)
/* As color of anello_comm_split: this rank joins no new communicator. */
#define ANELLO_UNDEFINED (-32766)

/* ---- Creation --------------------------------------------------------------------------------------------- */

/* Where ranks meet. A process that holds an id can start any number of ranks with it. Treat it as a secret. */
typedef struct anello_unique_id {
  unsigned char bytes[128];
} anello_unique_id_t;

/* Makes an id. This process then listens for the ranks that use the id until they have met. Send the 128 bytes to every
 * rank by any private means. One id serves one anello_comm_create per rank. */
ANELLO_API anello_result_t anello_unique_id_create(anello_unique_id_t *id);

/* The caller's key-value store, used only inside anello_comm_create. The job's secret travels through it, so the job is
 * only as private as the store. Both functions return 0 on success, and only the creating thread calls them.
 * set publishes value under key, once. get waits at most timeout_ms for key, copies at most *bytes bytes of its value
 * to value, and sets *bytes to the copied length. */
typedef struct anello_store {
  void *context;
  int (*set)(void *context, const char *key, const void *value, size_t bytes);
  int (*get)(void *context, const char *key, void *value, size_t *bytes, int64_t timeout_ms);
} anello_store_t;

typedef struct anello_config {
  size_t size;            /* sizeof(anello_config_t) of the caller's header; set by ANELLO_CONFIG_INITIALIZER */
  int rank;               /* -1: from the environment */
  int world_size;         /* -1: from the environment */
  const char *url;        /* NULL: env://. Else that, tcp://host:port, unix://name (this host) or file:///shared/path */
  const anello_unique_id_t *unique_id;  /* if set, url and store are not used */
  const anello_store_t *store;          /* if set, url is not used */
  int64_t timeout_ms;     /* deadline of every wait, from the last progress. 0: ANELLO_TIMEOUT_MS, else 300 s */
  const char *transports; /* NULL: ANELLO_TRANSPORT, else all. Else the permitted ones, for instance "shm,tcp" */
  int64_t silence_ms;     /* how long another host may be silent before its ranks are lost. The library's own thread
                             answers, so a rank may compute. 0: ANELLO_SILENCE_MS, else 2 s; -1: for ever. Rank 0's
                             value applies to all ranks */
} anello_config_t;

#define ANELLO_CONFIG_INITIALIZER {sizeof(anello_config_t), -1, -1, NULL, NULL, NULL, 0, NULL, 0}

/* Connects this rank with the others that come to the same meeting place. Returns when all have met, or when the
 * deadline has passed (ANELLO_ERR_RENDEZVOUS; the text lists the missing ranks), or as soon as two ranks claim the same
 * number or disagree about the size (the text on every rank names both, with host and pid).
 * config NULL: everything comes from the environment. Rank and size come from RANK and WORLD_SIZE, else
 * OMPI_COMM_WORLD_*, PMI_*, SLURM_*; the meeting place comes from MASTER_ADDR and MASTER_PORT; see docs/environment.md.
 * Without any of these the rank is alone (size 1).
 * For errors of creation call anello_last_error(ANELLO_COMM_NULL) on the same thread. */
ANELLO_API anello_result_t anello_comm_create(const anello_config_t *config, anello_comm_t *comm);

/* Makes count ranks inside this process in one call, for count threads. comms[i] is rank i. */
ANELLO_API anello_result_t anello_comm_create_all(int count, anello_comm_t *comms);

/* Runs anello_comm_create on a thread of the library. *comm is set when the request completes. What config points to is
 * copied, except a store's context; the library's thread calls the store's functions. */
ANELLO_API anello_result_t anello_comm_icreate(const anello_config_t *config, anello_comm_t *comm,
                                               anello_request_t *request);

/* Collective over comm. dup: the same ranks, with an order of operations of their own. split: ranks with equal color
 * join, ordered by key, then by rank; color is >= 0, or ANELLO_UNDEFINED for none (*result is then ANELLO_COMM_NULL).
 * split_host: ranks of the same host join. The nonblocking forms take their place in the order where they are called,
 * and set *result when the request completes.
 * A communicator costs each of its ranks 40 KiB, 80 bytes for each rank in it, and a little more for each rank that it
 * exchanges messages with. On one host it also costs 49 KiB of shared memory for each rank there. */
ANELLO_API anello_result_t anello_comm_dup(anello_comm_t comm, anello_comm_t *result);
ANELLO_API anello_result_t anello_comm_split(anello_comm_t comm, int color, int key, anello_comm_t *result);
ANELLO_API anello_result_t anello_comm_split_host(anello_comm_t comm, int key, anello_comm_t *result);
ANELLO_API anello_result_t anello_comm_idup(anello_comm_t comm, anello_comm_t *result, anello_request_t *request);
ANELLO_API anello_result_t anello_comm_isplit(anello_comm_t comm, int color, int key, anello_comm_t *result,
                                              anello_request_t *request);

/* Only the ranks of comm that are in the list call this, all with the same list. ranks[i] becomes rank i. The call has
 * no place in the order of collectives: several threads may make several groups at once, if a rank that is in two of
 * them gives each group another tag (0..2^30-1). Lists that differ are ANELLO_ERR_MISMATCH, and comm stays usable. If a
 * rank does not call, the others wait until the deadline. */
ANELLO_API anello_result_t anello_comm_create_group(anello_comm_t comm, int count, const int *ranks, int tag,
                                                    anello_comm_t *result);

/* Local: it needs no other rank. ANELLO_COMM_NULL is ANELLO_OK. Operations still in flight end with ANELLO_ERR_STATE;
 * their requests stay valid until waited for. What this rank has sent still arrives. Peers that wait for more from this
 * rank get ANELLO_ERR_PEER_LOST. If the communicator had failed before, destroy returns its first error, and the handle
 * is gone all the same. In this way a rank whose last call returned too early to see a mismatch learns of it. */
ANELLO_API anello_result_t anello_comm_destroy(anello_comm_t comm);

/* Local, from any thread, even while other threads are inside calls on comm. Ends all operations of comm, here and on
 * all of its ranks, with ANELLO_ERR_ABORTED in bounded time. reason goes to all ranks; it may be NULL. */
ANELLO_API anello_result_t anello_comm_abort(anello_comm_t comm, const char *reason);

/* This rank's number in comm, and the number of ranks in comm. */
ANELLO_API anello_result_t anello_comm_rank(anello_comm_t comm, int *rank);
ANELLO_API anello_result_t anello_comm_size(anello_comm_t comm, int *size);
/* The same among the ranks of comm that run on this rank's host. */
ANELLO_API anello_result_t anello_comm_local_rank(anello_comm_t comm, int *local_rank);
ANELLO_API anello_result_t anello_comm_local_size(anello_comm_t comm, int *local_size);
/* The transport that carries data to peer: "self", "inproc", "shm", "verbs" or "tcp". A static string. */
ANELLO_API anello_result_t anello_comm_transport(anello_comm_t comm, int peer, const char **name);

/* Each thread remembers only its last failed call. If that was a call on comm, this returns its text; if not, the text
 * of the first failure of comm itself. A call on no communicator counts as one on ANELLO_COMM_NULL. Returns "" if there
 * is no such failure. Valid until the calling thread calls Anello again. */
ANELLO_API const char *anello_last_error(anello_comm_t comm);

/* The contents of anello_last_error's text, in fields. Pointers are valid until the calling thread calls Anello again.
 * New fields are added at the end. */
typedef struct anello_error {
  size_t size;          /* sizeof(anello_error_t) */
  anello_result_t code; /* ANELLO_OK: nothing has failed */
  const char *text;     /* as from anello_last_error */
  int rank;             /* the rank concerned, in comm (for ANELLO_COMM_NULL in the job); -1: none, or not known */
  const char *host;     /* that rank's host; "" if rank is -1 or was never met */
  int64_t pid;          /* that rank's process id on its host; 0 if there is no host */
  const int *lost;      /* all ranks of comm known by now to have died or to be unreachable, ascending; NULL: none */
  size_t lost_count;
  const char *call;     /* "allreduce": the call that failed; NULL if it was no call of anello_kind_t */
  anello_kind_t kind;   /* its kind, if call is not NULL */
  int64_t sequence;     /* for a collective: its number in comm's order; -1 for messages and refused calls */
  const char *label;    /* its label, or "" */
  const int *suspected; /* ranks of comm that are not lost but now stopped or on a silent host, ascending; NULL: none */
  size_t suspected_count;
} anello_error_t;

#define ANELLO_ERROR_INITIALIZER \
  {sizeof(anello_error_t), ANELLO_OK, "", -1, "", 0, NULL, 0, NULL, ANELLO_BARRIER, -1, "", NULL, 0}

/* Describes the failure whose text anello_last_error(comm) would return, and leaves that text as it is. The lists are
 * as of now: they include ranks that died after the failure. If nothing has failed, code is ANELLO_OK, and the lists
 * are filled all the same. */
ANELLO_API anello_result_t anello_error_info(anello_comm_t comm, anello_error_t *error);

/* ---- Collectives ------------------------------------------------------------------------------------------ */

/* In place, one buffer holds both the input and the output of a rank. The rank says so by a marker, as in MPI, or by
 * address, as in NCCL. Each rank chooses for itself. All forms of a call allow it: blocking, nonblocking, persistent,
 * in a group. Any other overlap is ANELLO_ERR_ARGUMENT.
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
 *   reduce_scatter                 sendbuf ANELLO_IN_PLACE            recvbuf == sendbuf + recvcounts[0] + .. [rank-1]
 *
 * broadcast has one buffer. For the reduce_scatters, the marker means that recvbuf holds the whole input, and that the
 * result replaces its beginning. The address means that the result replaces this rank's part of sendbuf, and that the
 * other parts stay as they are. */

/* On every rank, recvbuf[i] = op over all ranks r of sendbuf_r[i], for i < count. In place: sendbuf is ANELLO_IN_PLACE
 * or equal to recvbuf. */
ANELLO_API anello_result_t anello_allreduce(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_op_t op, anello_comm_t comm);

/* Copies root's buffer into the buffer of every other rank. Root may return before the others have received. */
ANELLO_API anello_result_t anello_broadcast(void *buffer, size_t count, anello_dtype_t dtype, int root,
                                            anello_comm_t comm);

/* recvbuf (count * size elements) gets the sendbuf (count elements) of every rank r at r * count. In place: the input
 * is already at recvbuf + rank * count, and sendbuf is ANELLO_IN_PLACE or that address. */
ANELLO_API anello_result_t anello_allgather(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                            anello_comm_t comm);

/* Reduces all sendbufs (count * size elements). recvbuf (count elements) gets the elements of the result from
 * rank * count on. In place, there are two forms. With sendbuf ANELLO_IN_PLACE, recvbuf holds the input of count * size
 * elements; the result replaces the first count of them, and the others are unspecified afterwards. Or recvbuf is
 * sendbuf + rank * count, and nothing else in sendbuf changes. */
ANELLO_API anello_result_t anello_reduce_scatter_block(const void *sendbuf, void *recvbuf, size_t count,
                                                       anello_dtype_t dtype, anello_op_t op, anello_comm_t comm);

/* On root, recvbuf[i] = op over all ranks r of sendbuf_r[i], for i < count. The other ranks' recvbuf is ignored. In
 * place, at root only: sendbuf is ANELLO_IN_PLACE or equal to recvbuf. A rank other than root may return before the
 * others have called. */
ANELLO_API anello_result_t anello_reduce(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                         anello_op_t op, int root, anello_comm_t comm);

/* Root's recvbuf (count * size elements) gets the sendbuf (count elements) of every rank r at r * count. The other
 * ranks' recvbuf is ignored. In place, at root only: root's part is already at recvbuf + root * count, and sendbuf is
 * ANELLO_IN_PLACE or that address. A rank other than root may return before the others have called. */
ANELLO_API anello_result_t anello_gather(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                         int root, anello_comm_t comm);

/* recvbuf (count elements) gets the elements of root's sendbuf (count * size elements) from rank * count on. The other
 * ranks' sendbuf is ignored. In place, at root only: recvbuf is (void *)ANELLO_IN_PLACE or sendbuf + root * count, and
 * root's part stays where it is. Root may return before the others have called. */
ANELLO_API anello_result_t anello_scatter(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                          int root, anello_comm_t comm);

/* recvbuf (count * size elements) gets, at r * count for every rank r, what r's sendbuf (count * size elements) holds
 * at rank * count. In place: sendbuf is ANELLO_IN_PLACE or equal to recvbuf; each rank chooses for itself. */
ANELLO_API anello_result_t anello_alltoall(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                           anello_comm_t comm);

/* recvbuf[i] = op over ranks r <= rank (scan) or r < rank (exscan) of sendbuf_r[i], for i < count. exscan leaves rank
 * 0's recvbuf as it is; there it may be NULL unless it holds the input. In place: sendbuf is ANELLO_IN_PLACE or equal
 * to recvbuf. ANELLO_AVG is ANELLO_ERR_TYPE. A rank may return before higher ranks have called. */
ANELLO_API anello_result_t anello_scan(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                       anello_op_t op, anello_comm_t comm);
ANELLO_API anello_result_t anello_exscan(const void *sendbuf, void *recvbuf, size_t count, anello_dtype_t dtype,
                                         anello_op_t op, anello_comm_t comm);

/* Returns after every rank has called it. */
ANELLO_API anello_result_t anello_barrier(anello_comm_t comm);

/* ---- Collectives whose parts differ in count --------------------------------------------------------------- */

/* Counts and displacements are arrays of size entries, in elements. A displacement says where in the buffer a rank's
 * part begins. All forms, also the nonblocking ones, read the arrays only during the call. Parts that are written must
 * not overlap; an empty part may lie anywhere. Arrays that must be equal on all ranks (the counts of allgatherv and
 * reduce_scatter) are compared like the rest of a call. Where only two ranks know a count and they disagree, both
 * ranks' communicator fails with ANELLO_ERR_MISMATCH, and the text names both counts. */

/* recvbuf gets recvcounts[r] elements of every rank r at displs[r]. sendcount is recvcounts[rank]. In place: this
 * rank's part is already there, sendbuf is ANELLO_IN_PLACE or the address of that part, and sendcount is ignored. */
ANELLO_API anello_result_t anello_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
                                             const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype,
                                             anello_comm_t comm);

/* The same on root only. On other ranks recvbuf, recvcounts and displs are ignored. Each rank's sendcount must equal
 * its entry in root's recvcounts. In place, at root only: as for allgatherv. A rank other than root may return before
 * the others have called. */
ANELLO_API anello_result_t anello_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
                                          const size_t *recvcounts, const size_t *displs, anello_dtype_t dtype,
                                          int root, anello_comm_t comm);

/* Rank r gets sendcounts[r] elements from displs[r] of root's sendbuf. On other ranks sendbuf, sendcounts and displs
 * are ignored. Each rank's recvcount must equal its entry in root's sendcounts. In place, at root only: recvbuf is
 * (void *)ANELLO_IN_PLACE or sendbuf + displs[root], and recvcount is ignored. Root may return before the others have
 * called. */
ANELLO_API anello_result_t anello_scatterv(const void *sendbuf, const size_t *sendcounts, const size_t *displs,
                                           void *recvbuf, size_t recvcount, anello_dtype_t dtype, int root,
                                           anello_comm_t comm);

/* Reduces all sendbufs and cuts the result into parts of recvcounts[0], recvcounts[1], .. elements. recvbuf gets this
 * rank's part. In place, there are two forms. With sendbuf ANELLO_IN_PLACE, recvbuf holds the whole input; the result
 * replaces its first recvcounts[rank] elements, and the others are unspecified afterwards. Or recvbuf is the address of
 * this rank's part in sendbuf, and nothing else in sendbuf changes. */
ANELLO_API anello_result_t anello_reduce_scatter(const void *sendbuf, void *recvbuf, const size_t *recvcounts,
                                                 anello_dtype_t dtype, anello_op_t op, anello_comm_t comm);

/* Rank r gets sendcounts[r] elements from sdispls[r] of sendbuf, and puts them where its rdispls says for this rank.
 * Two ranks must agree on the counts of both directions between them. In place: sendbuf is ANELLO_IN_PLACE or equal to
 * recvbuf. The part for rank r then lies where the part from rank r will go, and sendcounts and sdispls are ignored. */
ANELLO_API anello_result_t anello_alltoallv(const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
                                            void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
                                            anello_dtype_t dtype, anello_comm_t comm);

/* ---- Point to point --------------------------------------------------------------------------------------- */

typedef struct anello_status {
  int source;
  int tag;
  size_t count; /* elements received */
} anello_status_t;

/* Messages between two ranks with matching tags (0..2^30-1) arrive in order. send may return before the receiver has
 * posted a receive. A message of up to 4 KiB does not wait for it, unless the small messages that this rank has sent to
 * the receiver on this communicator, and that no receive has taken yet, fill more than 384 KiB, counting 64 extra bytes
 * for each.
 * recv: source may be ANELLO_ANY_SOURCE, and tag may be ANELLO_ANY_TAG. count is the capacity of buffer; a longer
 * message is ANELLO_ERR_TRUNCATE, for this receive only. status may be NULL. A rank may send to itself. */
ANELLO_API anello_result_t anello_send(const void *buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                                       anello_comm_t comm);
ANELLO_API anello_result_t anello_recv(void *buffer, size_t count, anello_dtype_t dtype, int source, int tag,
                                       anello_comm_t comm, anello_status_t *status);

/* A send and a receive at once, each as above. Neither waits for the other, so all ranks of a ring may call it. The two
 * buffers must not overlap. Either peer may be ANELLO_RANK_NULL. status is the receive's; it may be NULL. */
ANELLO_API anello_result_t anello_sendrecv(const void *sendbuf, size_t sendcount, int dest, int sendtag, void *recvbuf,
                                           size_t recvcount, int source, int recvtag, anello_dtype_t dtype,
                                           anello_comm_t comm, anello_status_t *status);

/* Describes the first message that a recv with this source and tag would take now, and leaves the message there. status
 * (may be NULL) gets its source, its tag, and its count in elements of the type it was sent as. probe waits for a
 * message. iprobe looks once; *flag says whether there is one. */
ANELLO_API anello_result_t anello_probe(int source, int tag, anello_comm_t comm, anello_status_t *status);
ANELLO_API anello_result_t anello_iprobe(int source, int tag, anello_comm_t comm, int *flag, anello_status_t *status);

/* The same, but also claims the message: no other probe or receive sees it any more, on any thread. Only anello_mrecv
 * or anello_imrecv with *message receives it, and sets *message to ANELLO_MESSAGE_NULL. A message that is never
 * received is dropped with its communicator. */
ANELLO_API anello_result_t anello_mprobe(int source, int tag, anello_comm_t comm, anello_message_t *message,
                                         anello_status_t *status);
ANELLO_API anello_result_t anello_improbe(int source, int tag, anello_comm_t comm, int *flag, anello_message_t *message,
                                          anello_status_t *status);
ANELLO_API anello_result_t anello_mrecv(void *buffer, size_t count, anello_dtype_t dtype, anello_message_t *message,
                                        anello_status_t *status);
ANELLO_API anello_result_t anello_imrecv(void *buffer, size_t count, anello_dtype_t dtype, anello_message_t *message,
                                         anello_request_t *request);

/* ---- Nonblocking ------------------------------------------------------------------------------------------ */

/* Each posts the operation of its name and returns. The caller completes the operation by *request. Any number may be
 * in flight. */
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
/* One request stands for both. It completes when both the receive and the send have completed, with the receive's
 * status. */
ANELLO_API anello_result_t anello_isendrecv(const void *sendbuf, size_t sendcount, int dest, int sendtag, void *recvbuf,
                                            size_t recvcount, int source, int recvtag, anello_dtype_t dtype,
                                            anello_comm_t comm, anello_request_t *request);

/* wait returns the operation's result and sets *request to ANELLO_REQUEST_NULL. test does not block: *done says whether
 * the operation has completed. Only then does test consume the request and return the operation's result. A null
 * request is complete with ANELLO_OK. status may be NULL; only receives and probes set it. */
ANELLO_API anello_result_t anello_wait(anello_request_t *request, anello_status_t *status);
ANELLO_API anello_result_t anello_test(anello_request_t *request, int *done, anello_status_t *status);

/* These work on count requests and skip null ones. statuses is NULL or has count entries.
 * all: returns when all are complete, with the result of the first that failed. test_all consumes none before that.
 * any: *index is a request that has completed (-1 if all were null), and its result is returned. some: *done requests
 * have completed, at least one for wait, possibly none for test. Their indices are in indices[0..*done-1] and their
 * statuses in the same places; *done is -1 if all were null. */
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

/* Between begin and end on one thread, calls that would wait are posted and return at once, on any communicator:
 * collectives, send, recv, sendrecv, mrecv, and comm_create, dup, split and split_host. end waits for all of them
 * together and returns the first failure in the order of posting. Buffers, statuses, *comm and *result are valid from
 * then on. So one thread can be several ranks, and the sends and receives of a group need no order. Groups may be
 * nested; the outermost end waits. Inside a group, probe, mprobe, comm_create_group, and the creation and freeing of
 * windows are ANELLO_ERR_STATE. */
ANELLO_API anello_result_t anello_group_begin(void);
ANELLO_API anello_result_t anello_group_end(void);

/* For event loops. *descriptor becomes readable when an operation of this rank has ended, on comm or on any
 * communicator that descends from the same anello_comm_create. It belongs to the library, which moves operations
 * forward by itself. progress does not block: it makes the descriptor unreadable, moves what can move, and checks
 * deadlines. Call it when the descriptor is readable and, for the deadlines, now and then. Afterwards anello_test finds
 * what has ended. */
ANELLO_API anello_result_t anello_comm_descriptor(anello_comm_t comm, int *descriptor);
ANELLO_API anello_result_t anello_progress(anello_comm_t comm);

/* ---- Persistent ------------------------------------------------------------------------------------------- */

/* Each checks its arguments and keeps them, including arrays of counts, in an inactive *request. Nothing else happens,
 * here or on other ranks. start posts the call as the nonblocking form does; only then does the call take its place in
 * the order of collectives. wait and test complete it and leave the request inactive, ready to be started again. wait
 * and test treat an inactive request like a null one, but do not change it. The request belongs to the caller until
 * anello_request_free, even after its communicator was destroyed.
 * For an active request, start and request_free are ANELLO_ERR_STATE. Only one thread at a time may call them on a
 * request. start_all starts requests in order and stops at the first that fails. */
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
/* Frees an inactive persistent request and sets it to ANELLO_REQUEST_NULL. Null is ANELLO_OK. */
ANELLO_API anello_result_t anello_request_free(anello_request_t *request);

/* ---- Memory ----------------------------------------------------------------------------------------------- */

/* Allocates zeroed memory on a page boundary that ranks of this host can map. They map it when it is first used as the
 * buffer of a collective. From then on each rank loads data directly from the other ranks' buffers and stores results
 * directly into them, without a copy in between. In calls other than an all-reduce they do so only while that is not
 * slow (docs/environment.md: ANELLO_STAGING). Otherwise it is ordinary memory; any part of it, at any offset, may be a
 * buffer.
 * All pages are allocated at once. If the machine or the process's cgroup has too little memory left, the result is
 * ANELLO_ERR_RESOURCE, and no process is killed later. The memory is independent of communicators, and any thread may
 * allocate it. A forked child may use the memory, and shares it with its parent.
 * All such memory of a process costs it one descriptor, however often it allocates.
 * mem_free: NULL is ANELLO_OK. Do not free memory that a call in flight uses. To free memory that is part of a window
 * is ANELLO_ERR_ARGUMENT. Memory that was not freed disappears with the process. */
ANELLO_API anello_result_t anello_mem_alloc(size_t bytes, void **pointer);
ANELLO_API anello_result_t anello_mem_free(void *pointer);

#define ANELLO_MEM_HUGE_PAGES 1u /* a wish: asks the kernel for transparent huge pages */

typedef struct anello_mem_options {
  size_t size;    /* sizeof(anello_mem_options_t) */
  unsigned flags; /* ANELLO_MEM_.. or 0 */
  int numa_node;  /* the node for its pages; -1: the system chooses */
} anello_mem_options_t;
#define ANELLO_MEM_OPTIONS_INITIALIZER {sizeof(anello_mem_options_t), 0, -1}

/* As anello_mem_alloc, with wishes. A NUMA node that does not exist is ANELLO_ERR_ARGUMENT; a node with too little
 * memory left is ANELLO_ERR_RESOURCE. Huge pages come only if the kernel's transparent_hugepage/shmem_enabled is
 * advise, within_size or always. */
ANELLO_API anello_result_t anello_mem_alloc_with(size_t bytes, const anello_mem_options_t *options, void **pointer);

/* Turns the caller's own memory into memory like that of anello_mem_alloc: exchanges its pages for pages that ranks of
 * this host can map, with the same contents at the same addresses. It costs a copy. address and bytes must be multiples
 * of the page size (aligned_alloc, mmap). The memory must be writable and private to this process: heap or anonymous
 * mapping. It must not be a file mapping, a stack, registered already, or from anello_mem_alloc. ANELLO_ERR_ARGUMENT
 * says what is wrong with it.
 * During the call no other thread may use the memory. A device or kernel interface that has pinned its pages (CUDA,
 * RDMA, io_uring) must not use them afterwards. A process forked from then on shares the memory with its parent.
 * ANELLO_ERR_RESOURCE: there is no memory for the copy; nothing has changed. */
ANELLO_API anello_result_t anello_register(void *address, size_t bytes);
/* Gives the memory private pages again. address is the start of the registered memory. Call it before the memory is
 * freed or unmapped: otherwise peers continue with pages that are gone, and results are wrong. Do not call it while a
 * call in flight uses the memory. Memory that is part of a window is ANELLO_ERR_ARGUMENT. NULL is ANELLO_OK. */
ANELLO_API anello_result_t anello_deregister(void *address);

/* ---- Windows ---------------------------------------------------------------------------------------------- */

/* Collective: gives each rank bytes of zeroed memory at *base, aligned to a page. Each rank chooses its own bytes,
 * which may be 0. Ranks of the same host reach the memory through pointers of their own. If one rank has no memory, all
 * get ANELLO_ERR_RESOURCE. Otherwise it is ordinary memory for any buffer. A rank that writes into another rank's part
 * must synchronise that with the other rank's reads, by messages or collectives. */
ANELLO_API anello_result_t anello_window_create(size_t bytes, anello_comm_t comm, void **base, anello_window_t *window);
/* Collective: makes a window of memory that each rank already has and keeps until the window is freed. Other ranks
 * reach it if it is memory of their own process, or lies in what one call of anello_mem_alloc, anello_register or
 * anello_window_create has given. No call in flight may use it when this is called. Until the window is freed, calls
 * treat all memory of that allocation as ordinary memory. */
ANELLO_API anello_result_t anello_window_register(void *base, size_t bytes, anello_comm_t comm,
                                                  anello_window_t *window);
/* Where rank's part lies in this process, and its size (bytes may be NULL). *pointer is NULL if the part is not mapped
 * here: it is on another host, cannot be shared, is not Anello's memory, or has 0 bytes. The part is mapped when first
 * asked for, with the help of the rank's process: if that has ended by then, the result is ANELLO_ERR_RESOURCE. */
ANELLO_API anello_result_t anello_window_peer(anello_window_t window, int rank, void **pointer, size_t *bytes);
/* Collective: once every rank has called it, no pointer into the window may be used. It always gives this rank's memory
 * back and sets *window to ANELLO_WINDOW_NULL, even when it returns an error because the communicator has failed or was
 * destroyed; the ranks then do not wait for each other. Null is ANELLO_OK. */
ANELLO_API anello_result_t anello_window_free(anello_window_t *window);

/* ---- The one call under all of the above ------------------------------------------------------------------ */

/* Fields that a kind does not need are ignored. New fields are added at the end; size says how many the caller
 * knows. */
typedef struct anello_call {
  size_t size;          /* sizeof(anello_call_t) */
  anello_kind_t kind;
  anello_dtype_t dtype;
  anello_op_t op;
  int peer;             /* root, destination or source */
  int tag;
  const void *sendbuf;  /* broadcast: root's buffer, on root */
  void *recvbuf;        /* broadcast: the buffer */
  size_t count;
  int64_t timeout_ms;   /* 0: the communicator's */
  const size_t *sendcounts;  /* scatterv, alltoallv. This and the next three may be NULL for other kinds */
  const size_t *sdispls;     /* scatterv, alltoallv */
  const size_t *recvcounts;  /* allgatherv, gatherv, reduce_scatter, alltoallv */
  const size_t *rdispls;     /* allgatherv, gatherv, alltoallv */
  const char *algorithm;     /* for a collective; NULL: ANELLO_ALGORITHM or the library's choice. Must be equal on all
                                ranks */
  const char *label;         /* NULL, or the caller's name for the call, in texts, hooks and logs; may differ between
                                ranks */
} anello_call_t;

#define ANELLO_CALL_INITIALIZER \
  {sizeof(anello_call_t), ANELLO_BARRIER, ANELLO_UINT8, ANELLO_SUM, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, \
   NULL, NULL}

/* Posts call. With request NULL it blocks until the call is complete and returns its result. Both strings are read only
 * during the call, and label only to its first 63 bytes. An algorithm that does not exist or does not fit the call is
 * ANELLO_ERR_ARGUMENT; the text lists those that fit. */
ANELLO_API anello_result_t anello_post(anello_comm_t comm, const anello_call_t *call, anello_request_t *request);
/* Makes a persistent request from call. */
ANELLO_API anello_result_t anello_post_init(anello_comm_t comm, const anello_call_t *call, anello_request_t *request);

/* ---- Explaining ------------------------------------------------------------------------------------------- */

/* Says as JSON what call would do on this rank if it were posted now, without doing it. Needs no other rank. Buffers
 * may be NULL: they only show whether the call is in place. json gets at most capacity bytes, including the 0 at the
 * end. *length is the length of the whole text without that 0. With json NULL and capacity 0 the function gives only
 * the length. A capacity that is too small is ANELLO_ERR_TRUNCATE, and *length is set. The text is an object of
 *   kind, label; rank, ranks
 * and for a message or probe
 *   peer, tag, bytes {sent, received}, transport
 *   protocol: "eager" (sent at once) or "rendezvous" (sent when the receive is posted)
 *   taken {mapped, read, rdma}: how many of the communicator's messages so far this rank has copied directly from the
 *     sender's buffer.
 *     mapped: in memory of anello_mem_alloc or anello_register; read: in other memory, by system call; rdma: from
 *     another host, by the adapter, where both buffers are in such memory and have more than 64 KiB. Over shm, the
 *     receiver reads both kinds directly and uses neither protocol: messages in mapped memory from 8 KiB to 8 MiB, in
 *     other memory from 8 KiB to 1 MiB, and where ranks share processors all messages of 48 KiB to 8 MiB
 * and for a collective
 *   count, dtype, op, element_bytes (of an element as it travels), in_place, root (null if there is none)
 *   algorithm; why: some sentences
 *   rule: the line of the library's table that decided {number, measured (true: a line of the table that ANELLO_TUNING
 *     names), algorithm, where, reach (what ranks must be able to do with each other's buffers: "none", "read" or
 *     "store"), from_bytes, up_to_bytes, up_to_bytes_total, up_to_bytes_each}; null if the algorithm was asked
 *     for
 *   board: all ranks exchange their payloads over a page in shared memory, in one step and without messages
 *   chunk_bytes; chunks: of each rank's block, or of the whole vector if it is not cut into blocks
 *   steps, messages (sent)
 *   bytes {sent, received, reduced, copied}: of this rank. Over the board, the rank writes the sent bytes once, and all
 *     ranks read them
 *   peers: [{rank, transport, sent, received, messages}] for ranks that messages go to or come from
 *   expected_seconds: a rough guess for comparing; null if only other ranks know their counts, and for
 *     very large plans
 *   cached: the plan already exists, because a similar call was made
 *   by_reach {none, read, store}: the algorithm used if it turns out that ranks cannot reach each other's buffers, can
 *     read them by system call, or can load and store them. All fields above describe "none"
 *   reached {none, read, store}: how many of the communicator's calls so far had each kind of reach, if their ranks
 *     checked it
 *   on_devices {one_device, devices, calls}: the algorithm used if all buffers turn out to be on one device that the
 *     ranks use in turns, or on devices that they use at the same time (null: it goes through the host); and the number
 *     of the communicator's calls that ran on devices so far
 *   taken {rdma}: how many messages of the communicator's collectives so far this rank's adapter has got directly from
 *     the memory of a rank on another host */
ANELLO_API anello_result_t anello_explain(anello_comm_t comm, const anello_call_t *call, char *json, size_t capacity,
                                          size_t *length);

/* ---- Watching: hooks and log ------------------------------------------------------------------------------ */

typedef ANELLO_ENUM(anello_phase) {
  ANELLO_POSTED = 0,   /* about to begin */
  ANELLO_COMPLETED = 1 /* its result is about to be returned to the caller */
} anello_phase_t;

/* One call, reported twice. Everything in it is valid only during the hook. New fields are added at the end. */
typedef struct anello_hook_info {
  size_t size;            /* sizeof(anello_hook_info_t) of the library */
  anello_phase_t phase;
  anello_kind_t kind;
  const char *name;       /* the kind's name: "allreduce" */
  uint64_t call;          /* this call's number in this process, the same in both phases */
  anello_comm_t comm;     /* as the caller gave it; it may be destroyed by the time a request completes */
  uint64_t comm_id;       /* the same on all ranks of comm; 1 for one that anello_comm_create made */
  int rank;               /* this rank in comm */
  int ranks;              /* the number of ranks in comm */
  int64_t sequence;       /* a collective's number in comm's order, the same on all ranks; -1 for messages */
  anello_dtype_t dtype;
  anello_op_t op;
  size_t count;           /* as the caller gave it; for a completed receive or probe: of the message that came */
  size_t bytes;           /* of the larger of this rank's two buffers; 0 for barrier and probe */
  int peer;               /* root, destination or source; for a completed receive or probe: the sender */
  int tag;                /* for a completed receive or probe: of the message that came */
  int blocking;           /* 0: completed by wait or test */
  const char *algorithm;  /* "ring"; NULL for messages */
  const char *transport;  /* to the peer, or all that comm uses: "shm" or "shm,tcp"; "self" for a single rank */
  const char *label;      /* "" if there is none */
  int64_t posted_ns;      /* CLOCK_MONOTONIC */
  int64_t completed_ns;   /* 0 in phase ANELLO_POSTED */
  anello_result_t result; /* ANELLO_OK in phase ANELLO_POSTED */
  const char *error;      /* the text of a failure, else "" */
} anello_hook_info_t;

/* The library calls before on the thread that posts, and after on the thread to which wait, test or the blocking call
 * is about to report completion. Either may be NULL. released is called once, when the library will not call these
 * hooks any more. Hooks may run on several threads at once. They must not let exceptions out (those are dropped and
 * logged), and must not post on the communicator of the call (ANELLO_ERR_STATE). What they post on others is not
 * reported. */
typedef struct anello_hooks {
  size_t size;            /* sizeof(anello_hooks_t) */
  void *context;          /* passed to each of them */
  void (*before)(void *context, const anello_hook_info_t *info);
  void (*after)(void *context, const anello_hook_info_t *info);
  void (*released)(void *context);
} anello_hooks_t;

#define ANELLO_HOOKS_INITIALIZER {sizeof(anello_hooks_t), NULL, NULL, NULL, NULL}

/* Reports every collective, message and waiting probe of this process from now on, including started persistent
 * requests. sendrecv and mrecv are reported as the calls they consist of. Calls refused for their arguments and calls
 * that create communicators are not reported. hooks is copied; NULL: none. May be called at any time, from any thread.
 * A call that was reported to earlier hooks is reported to the same hooks when it completes, not to new ones: each
 * `before` has its `after`, unless its request is never completed. */
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

/* Gets one log line, without its line end: "[anello 3] rank 1 (host a, pid 7) over shm". text is valid only during the
 * call. Any thread may call it, even the library's own, but only one thread at a time. It must not call Anello. */
typedef void (*anello_log_t)(void *context, anello_log_level_t level, const char *text);

/* Sends the log to callback instead of standard error and ANELLO_LOG_FILE: lines of this level and more severe ones.
 * NULL restores those two, and level then has no effect. May be called at any time, from any thread, but not inside a
 * callback. When it returns, an earlier callback is not running and will not be called again. */
ANELLO_API anello_result_t anello_set_log(anello_log_t callback, void *context, anello_log_level_t level);

/* ---- About the library ------------------------------------------------------------------------------------ */

/* major * 10000 + minor * 100 + patch of the library in use, and the commit of its source ("unknown" outside git). */
ANELLO_API int anello_version(void);
ANELLO_API const char *anello_commit(void);

typedef struct anello_transport_info {
  size_t size;          /* sizeof(anello_transport_info_t) */
  const char *name;     /* a static string */
  char why_not[256];    /* "" if usable here, else the reason and what to do */
} anello_transport_info_t;

/* The transports that are built in, best first: index 0, 1, ..; an index past the last is ANELLO_ERR_ARGUMENT. */
ANELLO_API anello_result_t anello_transport_query(int index, anello_transport_info_t *info);

#ifdef __cplusplus
}
#endif

#endif /* ANELLO_ANELLO_H */
