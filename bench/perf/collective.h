#pragma once
// The measured collectives: those of anello.h under nccl-tests' names, with their sizes and bandwidth factors.
#include <anello/anello.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace perf {

enum class Collective {
  allreduce,
  broadcast,
  allgather,
  reduce_scatter,
  barrier,
  sendrecv,
  reduce,
  gather,
  scatter,
  alltoall,
  scan
};

const char* name(Collective collective);
// Also accepts nccl-tests' program names (all_reduce, ..) and anello.h's reduce_scatter_block.
std::optional<Collective> collective_named(const std::string& word);
std::vector<std::string> collective_names();

bool reduces(Collective collective);
bool has_root(Collective collective);
bool has_out_of_place(Collective collective);
bool has_in_place(Collective collective);

// One measured case.
struct Case {
  Collective collective = Collective::allreduce;
  anello_dtype_t dtype = ANELLO_FLOAT32;
  anello_op_t op = ANELLO_SUM;
  int root = 0;
  std::size_t count = 0;  // as the C function takes it: for one rank
  std::size_t bytes = 0;  // the size that nccl-tests prints: that of the larger buffer
};

// The case closest to bytes, from below.
Case sized(Case of, std::size_t bytes, int ranks);

// The numbers of elements of one rank's input and result.
std::size_t send_count(const Case& of, int ranks);
std::size_t receive_count(const Case& of, int ranks);

// Bus bandwidth is algorithm bandwidth times this factor.
double bus_factor(Collective collective, int ranks);

// Runs it once. Out of place for broadcast and barrier is not defined. Throws Failure.
void run(const Case& of, bool in_place, const void* send, void* receive, int rank, int ranks, anello_comm_t comm);

}  // namespace perf
