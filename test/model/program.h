#pragma once
// A program: what each of its ranks does, in an order that all know. Every rank makes the same value from the same seed
// and plays its part; the model computes from it what must come out.
//
// Why it cannot deadlock: a strand's turns are in one order, and each rank posts its part of them in that order; a rank
// that waits, in a call or for a request, waits for turns that it has passed or is in. Of all ranks take the one that
// is least far: all others have posted what it waits for. Strands of one rank share no communicator.
#include "model/own_op.h"

#include <anello/anello.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::model {

enum class Action {
  collective,
  message,  // one send, one receive
  burst,    // several sends with few tags, received in another order
  crowd,    // several senders, one receiver that takes from any
  shift,    // sendrecv along a permutation with holes
  nobody,   // send, receive and probe with ANELLO_RANK_NULL
  dup,
  split,
  subset,  // create_group: called by its members alone
  destroy,
  error,  // one deliberate error, on a communicator made for it
};

// How a rank posts its part.
enum class Form { blocking, nonblocking, persistent };

// How a message is taken.
enum class Taking { recv, probe, iprobe, mprobe, improbe };

// The deliberate errors.
enum class Fault { truncate, count, root, dtype, kind, bad_root, bad_type, null_buffer, part, abort, leave };

// What one rank of the communicator does in its own way.
struct Role {
  Form form = Form::blocking;
  bool in_place = false;
  bool own_address = false;  // in place by giving the output's address, not the marker
  int input_shift = 0;       // bytes past alignment
  int output_shift = 0;
  bool mapped = false;   // its buffers are of anello_mem_alloc
  int sleep_us = 0;      // before it posts
  bool grouped = false;  // blocking, between group_begin and group_end
  Taking taking = Taking::recv;
  int color = 0;  // of split
  int key = 0;
};

struct Message {
  int from = 0;  // ranks of the communicator
  int to = 0;
  int tag = 0;
  std::size_t count = 0;
};

struct Receive {
  bool any_source = false;
  int tag = 0;  // or ANELLO_ANY_TAG
  std::size_t room = 0;
  std::size_t message = 0;  // which one it gets; of a crowd's only the run can tell
};

struct Step {
  int id = 0;  // counted through the program
  Action action = Action::collective;
  int comm = 0;  // index into Program::comms
  anello_kind_t kind = ANELLO_BARRIER;
  anello_dtype_t dtype = ANELLO_UINT8;
  anello_op_t op = ANELLO_SUM;
  OwnOp own_op = OwnOp::none;  // in place of op
  int root = 0;
  std::size_t count = 0;
  std::vector<std::size_t> counts;  // v-forms: a rank's part; alltoallv: [from * size + to]
  int rounds = 1;                   // how often it is done, each time with new data
  std::uint64_t seed = 0;
  std::vector<Role> roles;        // by rank of the communicator
  std::vector<Message> messages;  // in the order of the sends
  std::vector<Receive> receives;  // in the order in which they are posted
  std::vector<int> results;       // dup, split, subset: the new communicators, by colour
  Fault fault = Fault::truncate;
  int culprit = 0;  // error: the rank that makes it
};

struct Comm {
  std::vector<int> members;  // ranks of the program, in the communicator's order
};

struct Turn {
  std::size_t step;  // index into Strand::steps
  int round;
};

// A thread of every rank. comms[k] of the program is strand k's own to begin with.
struct Strand {
  std::vector<Step> steps;
  std::vector<Turn> turns;
};

struct Program {
  std::uint64_t seed = 0;
  int job_ranks = 0;
  std::vector<int> order;  // job ranks that take part, in the order of the program's ranks
  std::vector<Comm> comms;
  std::vector<Strand> strands;
  bool one_after_another = false;  // strands not at once

  int size() const { return static_cast<int>(order.size()); }
};

// The rank of a program's rank in the communicator, -1 for none.
inline int rank_in(const Comm& comm, int program_rank) {
  for (std::size_t i = 0; i < comm.members.size(); ++i) {
    if (comm.members[i] == program_rank) return static_cast<int>(i);
  }
  return -1;
}

inline bool has_roots(anello_kind_t kind) {
  return kind == ANELLO_BROADCAST || kind == ANELLO_REDUCE || kind == ANELLO_GATHER || kind == ANELLO_SCATTER ||
         kind == ANELLO_GATHERV || kind == ANELLO_SCATTERV;
}
inline bool reduces(anello_kind_t kind) {
  return kind == ANELLO_ALLREDUCE || kind == ANELLO_REDUCE || kind == ANELLO_REDUCE_SCATTER_BLOCK ||
         kind == ANELLO_REDUCE_SCATTER || kind == ANELLO_SCAN || kind == ANELLO_EXSCAN;
}
inline bool is_prefix(anello_kind_t kind) { return kind == ANELLO_SCAN || kind == ANELLO_EXSCAN; }
inline bool varies(anello_kind_t kind) { return kind >= ANELLO_ALLGATHERV && kind <= ANELLO_ALLTOALLV; }
const char* name(anello_kind_t kind);
const char* name(Fault fault);

// For people, a line a step.
std::string describe(const Program& program);
std::string describe(const Program& program, const Step& step);

}  // namespace anello::model
