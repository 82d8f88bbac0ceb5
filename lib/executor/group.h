#pragma once
// The ranks of one communicator as the executor sees them: a flow to each peer in use, the operations in flight and
// their order, the board where the ranks share one, and the first error, which stays. Guarded by the rank's lock.
#include "base/error.h"
#include "control/call_records.h"
#include "executor/board.h"
#include "memory/read_policy.h"
#include "executor/operation.h"
#include "executor/parts.h"
#include "memory/staging.h"
#include "messaging/credit.h"
#include "messaging/matching.h"
#include "recorder/recorder.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace anello::executor {

class Route;

// One communicator and one peer: the frames to send, the frames that came early, and the credit either way.
struct Flow {
  Group* group = nullptr;
  int peer = -1;           // rank in the group
  Route* route = nullptr;  // the lane to the peer, shared with other communicators; null for this rank itself
  messaging::Credits credit;
  Fifo<RunLane, &RunLane::next> steps;
  OperationFifo unsent;                       // sends not yet announced to the peer, in the order of posting
  OperationFifo requested;                    // sends that wait for the answer to their RTS
  OperationFifo cleared;                      // sends whose bytes may leave
  std::vector<transport::FrameHeader> notes;  // CTS and leave frames to send
  std::size_t notes_sent = 0;
  EarlyFrames early;                         // frames of operations not in flight here yet, in their order
  std::size_t most_eager = kMostEagerBytes;  // messages of send up to this many bytes go without an RTS
  std::size_t least_got = SIZE_MAX;          // from this many bytes on an RTS carries its message's address
  std::size_t most_got = kMostGet;           // up to this many
  bool tells_addresses = true;               // even of messages outside all regions
  transport::RemoteMemory* far = nullptr;    // the way to the peer's memory, if that is far
  // By size: how many more messages are sent without an address, as the peer has asked.
  std::array<std::uint32_t, memory::ReadPolicy::kSizes> sent_instead{};
  std::unique_ptr<memory::ReadPolicy> reading;  // of the peer's messages; null: it is on another host
  std::int64_t left_ns = 0;  // when the peer was seen to have destroyed the communicator; 0: it has not
  Error left_after;          // the error that the communicator had there, without text
  bool turn = false;         // alternates cleared messages and steps
  bool listed = false;       // in route's list of flows with something to send
  Flow* next = nullptr;
  Flow* next_made = nullptr;

  // Whether the peer may get messages of this size.
  bool may_get(std::size_t bytes) const { return bytes >= least_got && bytes <= most_got; }
};

// A communicator's flows: a pointer per rank, and the flow once a frame goes to or comes from that rank. Flows keep
// their addresses, which routes hold, as long as the communicator exists.
class Flows {
 public:
  explicit Flows(Group& group);
  ~Flows();
  Flows(const Flows&) = delete;
  Flows& operator=(const Flows&) = delete;

  Flow& to(int peer) {
    Flow* const flow = by_rank_[std::size_t(peer)];
    return flow != nullptr ? *flow : make(peer);
  }
  // Null if no frame has gone either way.
  Flow* find(int peer) const { return by_rank_[std::size_t(peer)]; }

  // Visits the flows that exist; more may be made meanwhile.
  class Iterator {
   public:
    explicit Iterator(Flow* at) : at_(at) {}
    Flow& operator*() const { return *at_; }
    Iterator& operator++() {
      at_ = at_->next_made;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    Flow* at_;
  };
  Iterator begin() const { return Iterator(made_.front()); }
  Iterator end() const { return Iterator(nullptr); }

 private:
  Flow& make(int peer);

  Group& group_;
  std::vector<Flow*> by_rank_;
  Fifo<Flow, &Flow::next_made> made_;
};

// A message that arrived, or whose RTS did, before its receive was posted.
struct Unexpected {
  int source = -1;
  int tag = 0;
  std::uint32_t number = 0;  // the sender's number, of an RTS
  std::uint16_t dtype = 0;
  std::size_t bytes = 0;
  transport::RemoteAddress at;  // of an RTS that carries an address
  bool is_on_device = false;    // the address is for devices
  EarlyFrame* eager = nullptr;
  Operation* local = nullptr;  // a send of this rank to itself
  std::uint32_t claim = 0;     // number under which a matched probe has taken it; a receive names that
};

// Device memory that some rank could not open. That may have been for the moment: ranks try again, ever more seldom.
struct DeviceRefusal {
  std::uint32_t times = 0;
  std::uint32_t again_at = 0;  // the sequence of a call
};

// Counts the messages that this rank has got from their senders' buffers.
struct TakenMessages {
  std::uint64_t mapped = 0;
  std::uint64_t read = 0;  // by system call
  std::uint64_t rdma = 0;
  std::uint64_t rdma_steps = 0;  // of schedules' steps
};

class Group {
 public:
  Group(Parts& parts, std::uint64_t id, std::vector<int> ranks, int rank, Board board, std::uint32_t first_sequence);

  Parts& parts;
  const std::uint64_t id;
  const std::vector<int> ranks;  // world rank of each
  const int rank;
  Flows flows;
  Board board;
  recorder::Record record;
  Error error;
  bool is_ending = false;  // its operations are being ended

  std::uint32_t next_sequence;
  std::uint64_t chain = 0;  // digest of all calls so far
  OperationFifo window;     // collectives in order: the first kWindow at most are active, the others queued
  int active = 0;
  Fifo<Operation, &Operation::next_on_board> on_board;  // in the order of sequences; only the first uses it
  // By rank: the regions that it has announced, and whether all ranks have mapped them; under 0, whether all can read
  // its process. Identical on all ranks.
  std::vector<std::unordered_map<std::uint64_t, bool>> agreed;
  std::vector<std::unordered_map<std::uint64_t, DeviceRefusal>> device_refusals;  // likewise, by rank and key
  std::uint64_t agreements = 1;                                                   // rounds of agreement, plus one
  std::uint64_t reached[schedule::kReaches] =
      {};                        // collectives whose ranks announced buffers, by what they turned out to reach
  std::uint64_t on_devices = 0;  // collectives that ran on devices
  schedule::Space space = schedule::Space::host;  // of the last call that ranks offered to do on devices; host: none
  memory::Staging staging;
  std::array<memory::ReadPolicy, ANELLO_ALLTOALLV + 1> reading;  // by kind
  bool unreadable = false;                                       // some rank cannot read another's process
  bool polling_board = false;
  bool has_far_peers = false;                          // whose adapters may get what this rank sends
  bool by_address = false;                             // all ranks are threads that know each other's pointers
  std::uint64_t movement = 0;                          // of all collectives
  std::uint64_t movement_at_look = ~std::uint64_t{0};  // when gone peers were last looked for

  messaging::Matching<Operation, &Operation::next, Unexpected> messages;
  OperationFifo matched;  // receives whose message is arriving
  int sends_held_up = 0;  // sends that wait for their data, or behind one that does (shadows.h)
  OperationFifo getting;  // receives that get their messages
  TakenMessages taken;
  std::uint32_t next_number = 1;

  // Comparison of calls while nothing moves.
  std::uint64_t compared_movement = 0;
  std::int64_t compare_at_ns = 0;
  std::int64_t compare_pause_ns = 0;
  std::uint32_t suspected_at = 0;
  std::int64_t ask_again_ns = 0;  // for lines that no operation waits for; 0: all are there
  bool suspected = false;         // a frame or line came that does not fit this rank's calls
  Error reported_end;             // it has failed elsewhere for lack of a rank: arrived frames are taken in first
  std::int64_t end_seen_ns = 0;   // when another rank's board first showed that the communicator has failed there
  // The peer that certainly has not made this rank's call, at `differs_at` or before; the first such peer. It may have
  // forgotten its own call, and nothing else tells then. -1: no such peer.
  int differs = -1;
  std::uint32_t differs_at = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  int rank_of_world(int world) const;  // -1: not in the group
  bool idle() const { return window.empty(); }
  Operation* find(std::uint32_t sequence) const;
  // operation: the one with the header's sequence, null if none is in flight. An operation that is over here tells as
  // much as another digest: the frame's sender has made another call in its place.
  bool is_of_another_call(const Operation* operation, const transport::FrameHeader& header) const {
    if (operation != nullptr) return header.digest != operation->digest;
    return control::before(header.sequence, next_sequence);
  }
  bool is_oldest(const Operation& operation) const { return window.front() == &operation; }
};

inline int Operation::own_rank() const { return group->rank; }
inline bool Operation::is_on_board() const { return round != Round::none && group->on_board.front() == this; }

}  // namespace anello::executor
