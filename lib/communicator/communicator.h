#pragma once
// A communicator: rank and size, the path from a call to a plan, and the creation of others from it. The executor runs
// the operations. Errors are thrown in setup and returned in operations.
#include "base/error.h"
#include "communicator/explanation.h"
#include "communicator/in_place.h"
#include "communicator/plain_call.h"
#include "communicator/plan_cache.h"
#include "rank/context.h"
#include "schedule/catalog.h"

#include <anello/anello.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace anello {

struct Reduction;
struct Split;

class Communicator {
 public:
  // The first communicator of a rank: meets the others. Throws Error.
  static std::shared_ptr<Communicator> create(const anello_config_t& config);
  ~Communicator();

  int rank() const { return group_->rank; }
  int size() const { return group_->size(); }
  static bool share_arena(const control::Job& job, const std::vector<int>& world_ranks);
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const char* transport_to(int peer) const;
  // The transports to all peers: "shm", "shm,tcp"; "self" for a single rank.
  const std::string& transports() const { return transports_; }
  std::uint64_t id() const { return group_->id; }
  executor::Context& context() { return *context_; }

  // For a checked collective that requests an algorithm: an Error that lists the algorithms that fit if this one does
  // not, or none.
  Error why_not_algorithm(const anello_call_t& call) const;
  // The sequence number that a checked call would get if it were posted next.
  struct Outlook {
    std::int64_t sequence = -1;       // -1 of messages
    const char* algorithm = nullptr;  // static; null of messages
  };
  Outlook outlook(const anello_call_t& call);
  // Messages that this rank has copied directly from their senders' memory.
  executor::TakenMessages taken_messages();
  // The largest message to that rank that is sent without an RTS.
  std::size_t most_eager(int peer);
  // For a checked collective.
  Explanation explain(const anello_call_t& call);
  // Posts a checked call; the operation is complete or in flight. Never null. claim: the receive is for the message
  // that a probe has claimed.
  executor::Operation* post(const anello_call_t& call, std::uint32_t claim = 0);
  // As above, for a caller that waits for it next (wait_for).
  executor::Operation* begin(const anello_call_t& call) { return start(call, -1); }
  // A blocking call from start to end. sequence: that of a collective that failed.
  Error run(const anello_call_t& call, anello_status_t* status, int record_kind = -1, std::int64_t* sequence = nullptr);
  // A blocking collective that repeats the last one, including its buffers: the earlier checks still hold, and
  // everything that it needs is ready. not_begun: it differs, and nothing has happened. under_way: wait for *operation.
  executor::Context::Entered repeat(const PlainCall& call, executor::Operation** operation);
  // A checked blocking send or receive, from start to end if it is small and simple; not begun or false: it is not, and
  // nothing has happened. waits: the caller has nothing to receive meanwhile.
  executor::Context::Entered pass(const PlainSend& send, bool waits, executor::Operation** operation);
  bool pass(const PlainReceive& receive, anello_status_t* status);
  // Both of a sendrecv under one hold of the lock.
  enum class Passed { neither, send_under_way, send, both };
  Passed pass(const PlainSend& send, const PlainReceive& receive, anello_status_t* status,
              executor::Operation** sending);
  // A checked call in a stream, in two halves: up to where the stream waits for the rank, and from there on. Throw
  // Error; if it was the driver that refused, the communicator has failed.
  executor::StreamLine* enqueue(const anello_call_t& call, void* stream);
  void finish_enqueuing(executor::StreamLine& line);
  // Waits for an operation in flight. sequence: that of a collective that failed.
  Error wait_for(executor::Operation* operation, anello_status_t* status, std::int64_t* sequence);
  // The message that a checked probe finds; nothing: there is no message now (only if it does not wait). Throws Error.
  struct Probed {
    anello_status_t status;
    std::uint32_t claim;  // of the message, if the probe claims it
  };
  std::optional<Probed> probe(const anello_call_t& call, bool waits, bool claims);
  // A call that was refused for its arguments still takes its place in the order.
  void refuse(const anello_call_t& call, anello_result_t result, int record_kind = -1);

  // Collective: ranks of equal colour join, in the order of key, then of rank. record_kind: recorder::kDupCall or
  // kSplitCall, the kind under which other ranks hear of it if they disagree. Throws Error.
  struct Seat {
    int color;  // ANELLO_UNDEFINED: this rank joins none and gets nullptr
    int key;
  };
  std::shared_ptr<Communicator> split(Seat seat, int record_kind);
  // In two parts: the split is posted, and the communicator is made from the result once the operation is done.
  std::unique_ptr<Split> post_split(Seat seat, int record_kind);
  std::shared_ptr<Communicator> finish_split(Split& split);
  // Only these ranks of this communicator call it, with the list in the same order; tag distinguishes groups that are
  // made at once. Throws Error.
  std::shared_ptr<Communicator> create_group(const std::vector<int>& members, int tag);
  // The colour that all ranks of this host share.
  int color_of_host() const;
  void abort(const std::string& reason);
  // Destroys it and returns its first error. Later calls find it destroyed.
  Error destroy();
  Error first_error();
  // Likewise, with what has just been heard of other ranks.
  Error newest_error();
  // Ranks of this communicator that are known to be dead or unreachable.
  std::vector<int> lost_ranks();
  std::vector<int> suspected_ranks();
  int rank_of_world(int world) const { return group_->rank_of_world(world); }
  const control::Member& member(int rank) const;

 private:
  Communicator(std::shared_ptr<executor::Context> context, schedule::Wish wish, std::uint64_t id,
               std::vector<int> ranks, int board, std::int64_t timeout_ms);

  void prepare(executor::Operation& operation, const anello_call_t& call, recorder::CallRecord& record,
               executor::StreamLine* line = nullptr);
  schedule::Call planned(const anello_call_t& call, InPlace place, const Reduction& reduction) const;
  std::shared_ptr<const executor::Plans> plans(const schedule::Call& call);
  void expose(executor::Operation& operation, const schedule::Call& call) const;
  executor::Operation* start(const anello_call_t& call, int record_kind, std::uint32_t claim = 0);
  void load_kernels_of(const anello_call_t& call, const device::Device& device);
  executor::StreamLine* post_in_stream(const anello_call_t& call, device::Device& device, void* stream,
                                       bool is_captured);
  bool enter(const anello_call_t& call, int record_kind, executor::Operation** under_way);
  bool enter_last(executor::Operation** under_way);
  executor::Operation* rest_of(const PlainSend& send, executor::Messages::Sent sent);
  void give_back(executor::Operation* operation);
  bool is_like_last(const anello_call_t& call, InPlace place, int record_kind) const;
  bool asks_like_last(const anello_call_t& call) const;
  void prepare_last(const anello_call_t& call, InPlace place, int record_kind);
  int allocate_board(int users);
  void give_back_board();
  void trim_board(int board, const std::vector<int>& users);
  std::unique_ptr<Split> prepare_split(Seat seat, int record_kind);
  std::shared_ptr<Communicator> child(std::uint64_t id, std::vector<int> ranks, int board);

  std::shared_ptr<executor::Context> context_;
  const std::int64_t timeout_ms_;
  const int board_;  // index in the arena, -1: none
  std::unique_ptr<executor::Group> group_;
  schedule::Topology topology_;
  schedule::Wish wish_;
  std::string transports_;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::mutex plans_mutex_;
  PlanCache plans_;
  // The last call, prepared: a call like it differs only in its buffers. Guarded by the context's lock.
  struct Last {
    executor::Operation* operation = nullptr;  // null: none, or it is in flight
    executor::Operation* under_way = nullptr;  // it comes back when it has ended without error
    anello_call_t call;
    std::optional<PlainCall> plain;  // as above, if it is one
    std::string_view algorithm;      // the requested algorithm, in the catalog
    InPlace in_place;
    int record_kind;
    recorder::CallRecord record;
    std::uint64_t digest;
  };
  Last last_{};
  // A mark of its plain call, which shows whether it is worth comparing under the lock. 0: none.
  std::atomic<std::uintptr_t> last_mark_{0};
  std::atomic<std::uint32_t> children_{0};  // splits so far, equal on all ranks
  std::atomic<std::uint32_t> groups_{0};    // of which this rank was the first
  std::once_flag destroyed_;
};

}  // namespace anello
