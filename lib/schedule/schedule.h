#pragma once
// One rank's part of one collective call, as a value. An algorithm makes it through a Builder; the executor executes
// it, simulate.h simulates it, print.h prints it, and the communicator caches it.
#include "schedule/step.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace anello::schedule {

enum class Collective : std::uint8_t {
  allreduce,
  broadcast,
  allgather,
  reduce_scatter,
  barrier,
  reduce,
  gather,
  scatter,
  alltoall,
  scan,
  exscan,
  allgatherv,
  gatherv,
  scatterv,
  reduce_scatterv,
  alltoallv  // the forms whose parts differ in count
};
inline constexpr Collective kCollectives[] = {
    Collective::allreduce, Collective::broadcast, Collective::allgather,       Collective::reduce_scatter,
    Collective::barrier,   Collective::reduce,    Collective::gather,          Collective::scatter,
    Collective::alltoall,  Collective::scan,      Collective::exscan,          Collective::allgatherv,
    Collective::gatherv,   Collective::scatterv,  Collective::reduce_scatterv, Collective::alltoallv};

// One rank's view of parts that differ in count: by rank, the number of elements that it gets from here and sends here,
// and their places in this rank's input and output. For reduce_scatterv, sends are all ranks' counts, and receives is
// only this rank's count.
struct Varying {
  std::vector<std::size_t> sends;
  std::vector<std::size_t> send_at;
  std::vector<std::size_t> receives;
  std::vector<std::size_t> receive_at;
  // One past the last element of each; shape.h's measured() fills them in.
  std::size_t input_end = 0;
  std::size_t output_end = 0;
};

// What all ranks can do with all ranks' buffers of a call, once each has announced its own. A rank that has announced
// has entered the call: unless this is `none`, no step runs before all have announced.
enum class Reach : std::uint8_t {
  none,
  read,   // load: a peer's slice may be `from` of copy and reduce_ranks
  store,  // and store: also their `into`
};
inline constexpr int kReaches = 3;

// Where all ranks' buffers lie, and so what runs the steps.
enum class Space : std::uint8_t {
  host,
  one_device,  // of a device on which the ranks' kernels run in turns, since the ranks are processes
  devices,     // of devices that reach each other, or of one, and the ranks' kernels run at the same time
};
inline constexpr int kSpaces = 3;
// The most ranks of a call on devices: a kernel takes an operand and a result of each.
inline constexpr int kMostOnDevices = 8;

// The properties of a call that all ranks know to be equal.
struct Call {
  Collective collective = Collective::barrier;
  std::size_t count = 0;  // as in anello.h: the whole vector, or one rank's part if a vector has one for each
  std::size_t element_bytes = 1;
  int root = 0;
  bool in_place = false;  // input lies in output: same offsets (allreduce), at rank * count (allgather), and for
                          // reduce_scatter the count * size inputs lie in output, whose first count are the result.
                          // Of reduce, gather and scatter it concerns the root alone (shape.h). This rank's own: no
                          // algorithm may send other messages for it
  bool own_part =
      false;  // for a reduce_scatter in place: the result replaces this rank's part of the inputs, not the first part
  bool finish = false;      // the result must pass through a finish step (AVG)
  bool accumulate = false;  // partial results must not be sent and are formed in an accumulator (16-bit sums)
  bool invariant = false;   // one owner reduces ranks 0..P-1 in this order
  // For the forms with varying parts, whose count is that of all parts if all ranks know it, else 0. It is this rank's
  // own, and compared by address: choose() ignores it.
  std::shared_ptr<const Varying> varying;
  Reach reach = Reach::none;
  Space space = Space::host;
  std::string_view algorithm;  // the algorithm that the call itself requests, as the catalog spells it; "": none
  bool operator==(const Call&) const = default;
};

// The properties of the ranks' placement that all ranks know to be equal.
class Hosts;

struct Topology {
  int size = 1;
  bool board = false;             // all ranks share a board (threads or shared memory)
  std::size_t board_bytes = 0;    // largest payload of one rank on it
  std::size_t staging_bytes = 0;  // staging memory of each rank, from which all ranks load; 0: there is none
  bool network = false;           // some pair of ranks meets over a network transport
  bool oversubscribed = false;    // more ranks than processors on some host
  std::vector<int> host_of;  // by rank: which ranks meet in memory, hosts numbered by their lowest rank; empty where
                             // all ranks do, or no two. hosts.h
  std::vector<int> processors_of;  // by rank: the same number, below size, for those that may run on the same
                                   // processors; empty where all may, or no two
  // What Hosts(topology) is, for who makes the plans of many ranks (know_hosts); null: each plan finds it out.
  std::shared_ptr<const Hosts> known_hosts = nullptr;
  std::shared_ptr<const Hosts> known_processors = nullptr;  // ranks by processor in place of host
  bool operator==(const Topology& other) const;
};

// The value of staging_bytes between processes of a host. For all ranks together it fits into the larger caches and
// exceeds the smaller ones, so that memory that is used again has left the caches of the ranks that loaded it.
inline std::size_t usual_staging_bytes(int ranks) {
  constexpr std::size_t kMiB = 1024 * 1024, kTogether = 8 * kMiB, kLeast = kMiB / 2;
  return std::clamp(kTogether / static_cast<std::size_t>(ranks) / kLeast * kLeast, kLeast, 4 * kMiB);
}

// The steps that one peer sees, in program order: the k-th send here matches the k-th receive there.
struct Lane {
  int peer = -1;
  std::vector<std::uint32_t> sends;
  std::vector<std::uint32_t> receives;
};

struct Schedule {
  std::string algorithm;
  std::vector<Step> steps;                    // program order
  std::vector<std::uint32_t> waits;           // per step: the number of earlier steps that must be done before it
  std::vector<std::uint32_t> followers;       // of step s: followers[follower_begin[s] .. follower_begin[s + 1])
  std::vector<std::uint32_t> follower_begin;  // steps.size() + 1 entries
  std::vector<Lane> lanes;                    // by rising peer
  // The peers' buffers that the algorithm accesses on any rank: equal on all ranks, also on those that access none.
  bool peers_inputs = false;
  bool peers_outputs = false;
  std::size_t scratch = 0;  // elements of each private buffer
  std::size_t accumulator = 0;
  std::size_t staging = 0;          // equal on all ranks
  bool staging_comes_back = false;  // each rank's staging is its own again when its call is over; equal on all ranks
};

// The index of the lane to peer; lanes.size(): none.
inline std::size_t lane_to(const Schedule& schedule, int peer) {
  const auto& lanes = schedule.lanes;
  const auto at = std::lower_bound(lanes.begin(), lanes.end(), peer, [](const Lane& l, int p) { return l.peer < p; });
  return static_cast<std::size_t>((at != lanes.end() && at->peer != peer ? lanes.end() : at) - lanes.begin());
}

}  // namespace anello::schedule
