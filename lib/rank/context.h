#pragma once
// A rank in this process: its parts (parts.h), the order of its operations, and their ends. Its driver has the lock
// that guards them, and the threads that move them (progress/driver.h).
#include "base/error.h"
#include "control/job.h"
#include "executor/activity.h"
#include "executor/announcing.h"
#include "executor/engine.h"
#include "executor/entering.h"
#include "executor/gets.h"
#include "executor/group.h"
#include "executor/groups.h"
#include "executor/kept_frames.h"
#include "executor/messages.h"
#include "executor/operation_pool.h"
#include "executor/outcomes.h"
#include "executor/parts.h"
#include "executor/rounds.h"
#include "executor/routes.h"
#include "executor/shadows.h"
#include "executor/step_gets.h"
#include "executor/steps.h"
#include "executor/stream_calls.h"
#include "executor/supervision.h"
#include "health/peer_fates.h"
#include "memory/buffer.h"
#include "progress/completion_bells.h"
#include "progress/driver.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace anello::executor {

class Context final : private progress::Driven, public Outcomes {
  using Lock = progress::Driver::Lock;

 public:
  Context(std::unique_ptr<control::Job> job, std::vector<AvailableTransport> transports, long spin_us,
          memory::ReadPolicy::Wish staging = memory::ReadPolicy::Wish::by_time,
          std::unique_ptr<Engine> engine = make_engine());
  ~Context() override;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  control::Job& job() { return *job_; }
  int rank() const { return rank_; }
  // Whether ranks of this host share processors.
  bool shares_processors() const { return sharing_ > 1; }

  // ---- For the communicator; these take the lock ----
  // The caller owns the group, and keeps it until no thread is inside a call on it.
  std::unique_ptr<Group> add_group(std::uint64_t id, std::vector<int> ranks, Board board, std::uint32_t first_sequence);
  // Ends the operations in flight, and all later ones, with ANELLO_ERR_STATE, and tells the peers. Returns the group's
  // first error.
  Error remove_group(Group& group);
  // Bracket the making of a communicator: the generation that this rank brings to it, and its end (generations.h).
  std::uint32_t begin_making();
  void end_making(std::uint32_t brought);

  Operation* acquire(Group& group);
  void release(Operation* operation);
  // Enters a collective (plan set) or a message. Assigns sequence and digest from record; a record with `refused` only
  // takes its place in the order, and the operation is complete when this returns.
  void post(Operation& operation, recorder::CallRecord& record);
  // Likewise, under the lock that the caller holds.
  void post_held(Operation& operation, recorder::CallRecord& record);
  // The fast path (fast_path.cpp) of a blocking call whose plan is one exchange: does all of it under the lock that the
  // caller holds, if the communicator is idle and the other ranks come at once. complete: without an error, and the
  // operation may be entered again as it is. digest: of the unchanged record (recorder/ledger.h).
  enum class Entered { complete, under_way, not_begun };
  Entered exchange_now(Operation& operation, recorder::CallRecord& record, std::uint64_t digest);
  // Likewise for a call whose ranks announce their buffers, as far as it needs only the board and their memory.
  Entered walk_now(Operation& operation, recorder::CallRecord& record, std::uint64_t digest);
  // Enters any other blocking collective, or one of the above that has not begun.
  Entered enter_now(Operation& operation, recorder::CallRecord& record, std::uint64_t digest);
  // For the fast path of blocking messages, under the lock that the caller holds.
  Messages& messages() { return messages_; }
  StreamCalls& stream_calls() { return stream_calls_; }
  const Gets& gets() const { return gets_; }
  // Takes the lock for the fast paths if no thread has it and none drives; else empty.
  progress::RankLock::Short lock_if_free() { return driver_.lock_if_free(); }
  // The pool, for the fast paths, under the lock that the caller holds.
  OperationPool& operations() { return pool_; }
  // Waits until the host has what an operation reads that is not posted yet. When this fails, so does the communicator.
  // Throws Error.
  void fetch_now(Operation& operation);
  // Waits until the operation is done; when its deadline passes, it is done with ANELLO_ERR_TIMEOUT.
  void wait(Operation& operation);
  // The caller leaves operations in flight: the service thread looks after them while no thread waits.
  void leave_to_background();
  // Drives once, without waiting, and returns whether the operation is done.
  bool test(Operation& operation);
  // Likewise, but also checks its deadline: for a thread that waits for operations of several contexts.
  bool test_with_deadline(Operation& operation);
  // From now on every operation that ends adds to this eventfd, until tell_no_more.
  void tell_of_completion(int descriptor);
  void tell_no_more(int descriptor);
  // An eventfd of the context's own for that, for event loops; made at the first call. Throws Error.
  int completion_descriptor();
  // Drives once, and checks the deadlines of operations in flight. Empties completion_descriptor().
  void progress_once();
  // Looks once for a message for a prepared probe that is not posted. Throws the group's first error.
  bool probe_now(Operation& probe);
  // Waits until one of them is done. Null entries are skipped.
  void wait_any(Operation* const* operations, std::size_t count);
  // Ends the group's operations here and on all of its ranks.
  void abort(Group& group, const Error& cause);
  // The group's ranks, in rising order, that control knows to be lost by now.
  std::vector<int> lost_ranks(const Group& group);
  // The group's first error, after a look at what is new.
  Error newest_error(const Group& group);
  // The group's ranks whose process is stopped, or whose host is silent.
  std::vector<int> suspected_ranks(const Group& group);
  // Maps the memory that a rank of the job (not of a communicator) says it has at `at`, for as long as *kept lives.
  // Waits for its descriptor, asleep, for a bounded time. Null: the two ranks share no memory, or `at` lies in no
  // region. Throws Error if the memory cannot be mapped.
  std::byte* map_now(int world, const transport::RemoteAddress& at, std::size_t bytes,
                     std::shared_ptr<const void>* kept);
  // The lock for threads that look into a group from outside.
  Lock lock() { return driver_.lock(); }

  // ---- These require the lock ----
  // Outcomes
  void finish(Operation& operation, const Error& error = {}) override;
  void fail(Group& group, const Error& error, bool tell) override;
  void fail_all_with(int world, const Error& error, bool tell) override;
  void fail_for_memory(Group& group) override;
  void may_start(Operation& operation) override;
  void may_enter(Operation& operation, recorder::CallRecord& record) override;
  void delivered(Operation& operation, const Error& error) override { complete(operation, error); }
  Engine& engine() { return steps_.engine(); }

 private:
  // Functions that the driver calls (driven.cpp)
  void begin_driving() override { supervision_.request_gone_check(); }
  bool move() override;
  bool is_busy() override;
  void about_to_sleep() override;
  bool arm() override;
  int longest_sleep_ms() const override;
  long poll_again_ns() const override;
  int sockets() const override { return routes_.sockets(); }
  bool waits_elsewhere() const override { return rounds_.awaits_elsewhere(); }
  bool is_first_of_two() const override { return rounds_.is_first_of_two(); }
  std::size_t rest_of_frames() const override;
  std::uint64_t received_bytes() const override { return activity_.received_bytes; }

  bool move_all();
  bool handle_events();
  void handle_news();
  void take_verdict(Group& group);
  bool test_once(Operation& operation);

  // A collective's place in its communicator's order, and the window of collectives in flight.
  static void number(Operation& operation, recorder::CallRecord& record, std::uint64_t digest) {
    Group& group = *operation.group;
    record.sequence = group.next_sequence++;
    group.chain = group.chain * 0x9e3779b97f4a7c15ull + digest;
    record.digest = group.chain;
    operation.sequence = record.sequence;
    operation.digest = record.digest;
  }
  void enter(Operation& operation, recorder::CallRecord& record, std::uint64_t digest);
  void queue(Operation& operation);
  void activate(Group& group);
  void start(Operation& operation);
  bool fetch(Operation& operation);
  void push_routes(const Operation& operation);

  // The fast path (fast_path.cpp)
  bool room_comes(Board& board, std::size_t bytes) const;
  Board::Seen lines_seen(Board& board, Round round, std::uint64_t digest);
  bool lines_come(const Operation& operation);
  void put_in_window(Operation& operation);
  Entered begin_by_messages(Operation& operation);
  Entered entered(Operation& operation);
  Entered ended_well(Operation& operation);

  // How an operation ends: it leaves its communicator, then it is done. Returns what there is to add to its error.
  std::string leave(Operation& operation, const Error& error);
  void complete(Operation& operation, const Error& error);
  void begin_next(Group& group);
  void end_all(Group& group, const Error& error);

  class WaitForAny;

  std::unique_ptr<control::Job> job_;
  const int rank_;
  progress::Driver driver_;
  const int sharing_;  // ranks of this host per processor
  Activity activity_;
  unsigned tests_ = 0;  // tests in vain
  progress::CompletionBells bells_;
  OperationPool pool_;
  FramePool frames_;
  memory::Buffers buffers_;
  health::PeerFates fates_;
  Groups groups_;
  Parts parts_;
  Routes routes_;
  KeptFrames kept_;
  Steps steps_;
  Gets gets_;
  StepGets step_gets_;
  Shadows shadows_;
  StreamCalls stream_calls_;
  Messages messages_;
  Rounds rounds_;
  Announcing announcing_;
  Entering entering_;
  Supervision supervision_;
  // In the order in which they are polled: what has arrived may let a round go on, and that a step.
  const std::array<progress::Source*, 6> sources_{&routes_, &rounds_, &steps_, &messages_, &shadows_, &stream_calls_};
};

}  // namespace anello::executor
