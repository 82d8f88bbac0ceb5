#pragma once
// A rank in this process: its routes to others, the communicators it is in, and the operations under way. Its driver
// has the lock that guards them all, and the threads that move them (progress/driver.h).
#include "base/error.h"
#include "control/job.h"
#include "messaging/early_frame.h"
#include "executor/engine.h"
#include "executor/generations.h"
#include "executor/group.h"
#include "executor/operation_pool.h"
#include "executor/peer_work.h"
#include "executor/routes.h"
#include "messaging/stray_frames.h"
#include "health/peer_fates.h"
#include "memory/buffer.h"
#include "memory/copy.h"
#include "progress/completion_bells.h"
#include "progress/driver.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace anello::executor {

class Context : private progress::Driven {
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
  // Whether ranks of this host do.
  bool shares_processors() const { return sharing_ > 1; }

  // ---- For the communicator; these take the lock ----
  // The caller owns the group, and outlives with it whoever is inside a call on it.
  std::unique_ptr<Group> add_group(std::uint64_t id, std::vector<int> ranks, Board board, std::uint32_t first_sequence);
  // Ends what is under way, and all that is posted later, with ANELLO_ERR_STATE and tells the peers. Returns the
  // group's first error.
  Error remove_group(Group& group);
  // Around the making of a communicator: what this rank brings to its generation, and that it has ended
  // (generations.h).
  std::uint32_t begin_making();
  void end_making(std::uint32_t brought);

  Operation* acquire(Group& group);
  void release(Operation* operation);
  // Enters a collective (plan set) or a message. Assigns sequence and digest from record; a record with `refused`
  // only takes its place in the order, and the operation is complete when this returns.
  void post(Operation& operation, control::CallRecord& record);
  // The fast path (fast_path.cpp), for a blocking call whose plan is one exchange: does all of it under the lock that
  // the caller holds if the communicator is idle and the others come at once. complete: without an error, and it may be
  // entered again as it is. digest: of the record as it is (control/ledger.h).
  enum class Entered { complete, under_way, not_begun };
  Entered exchange_now(Operation& operation, control::CallRecord& record, std::uint64_t digest);
  // The same for one whose ranks announce their buffers, as far as it needs nothing but the board and their memory.
  Entered walk_now(Operation& operation, control::CallRecord& record, std::uint64_t digest);
  // Any other blocking collective, or one of these that has not begun: enters it.
  Entered enter_now(Operation& operation, control::CallRecord& record, std::uint64_t digest);
  // The fast path of blocking messages (fast_messages.cpp), under the lock that the caller holds.
  // in_part: some of it has gone. requested: its RTS has. go_on_sending takes the operation for the rest.
  // waits: for the answer to an RTS, if it comes at once.
  using Sent = Route::Sent;
  Sent send_now(Group& group, int dest, const SmallMessage& message, bool waits);
  void go_on_sending(Operation& operation, Sent sent);
  // True: it was there, or came at once, is in its buffer, and wanted says what it was. Else nothing has happened.
  bool receive_now(Group& group, int source, SmallReceive& wanted);
  // The lock for the fast paths if nobody has it and nobody drives; else empty.
  progress::RankLock::Short lock_if_free() { return driver_.lock_if_free(); }
  // The same under the lock.
  OperationPool& operations() { return pool_; }
  // Waits until it is done, or its deadline passes and it is done with ANELLO_ERR_TIMEOUT.
  void wait(Operation& operation);
  // The caller goes away with operations under way: the service thread looks after them while nobody waits.
  void leave_to_background();
  // Drives once, without waiting; whether it is done.
  bool test(Operation& operation);
  // The same, and looks at its deadline: for a thread that waits for operations of several contexts.
  bool test_with_deadline(Operation& operation);
  // Every operation that ends adds to this eventfd, until told otherwise.
  void tell_of_completion(int descriptor);
  void tell_no_more(int descriptor);
  // One such descriptor of the context's own, for event loops; made when first asked for. Throws Error.
  int completion_descriptor();
  // Drives once, and looks at the deadlines of what is under way. Empties that descriptor.
  void progress_once();
  // For a prepared probe that is not posted: looks once. Throws the group's first error.
  bool probe_now(Operation& probe);
  // Until one of them is done. Null entries are skipped.
  void wait_any(Operation* const* operations, std::size_t count);
  // Ends the group's operations here and on all of its ranks.
  void abort(Group& group, const Error& cause);
  // Of the group, in rising order: those that control knows to be lost by now.
  std::vector<int> lost_ranks(Group& group);
  std::vector<int> suspected_ranks(Group& group);
  // The lock for those who look into a group from outside.
  Lock lock() { return driver_.lock(); }

  // ---- For the executor's other parts; these require the lock ----
  // Opens it. What cannot be opened fails the communicators that have its peer.
  void open_route(Route& route, UniqueFd socket);
  // Of a new flow: its route, and which messages the peer may get.
  void set_up(Flow& flow);
  void want_to_send(Flow& flow);
  void finish(Operation& operation, const Error& error = {});
  void begin_round(Operation& operation, Round round);
  // The way to the memory of the group's rank; null: there is none.
  transport::RemoteMemory* memory_of(const Group& group, int peer) const {
    return routes_.memory_of(group.ranks[std::size_t(peer)]);
  }
  transport::RemotePeer remote_peer(const Group& group, int peer) const {
    const int world = group.ranks[std::size_t(peer)];
    return {world, job_->members()[std::size_t(world)].local_index};
  }
  // Whether the peer is a thread of this process, whose addresses are this one's.
  bool shares_addresses(const Group& group, int peer) const {
    const transport::RemoteMemory* const memory = memory_of(group, peer);
    return memory != nullptr && memory->shares_addresses();
  }
  transport::RemoteMemory::State prepare(const Group& group, int peer, std::uint64_t key) const {
    transport::RemoteMemory* const memory = memory_of(group, peer);
    return memory != nullptr ? memory->prepare(remote_peer(group, peer), key) : transport::RemoteMemory::State::refused;
  }
  memory::PieceCopy& copies_to_peers() { return copies_; }
  // Bytes that were copied, reduced or received: others of the host that wait see that this rank works.
  void count_handled(std::size_t bytes);
  void count_received(std::size_t bytes) { received_bytes_ += bytes; }
  // Goes on with a step at peers' buffers. True: something was done.
  bool work(Operation& operation);
  // What has come of that, or of a piece that was pending; of a whole step which one.
  bool note_worked(Operation& operation, Worked worked, std::uint32_t step);
  Engine& engine() { return *engine_; }
  bool is_immediate() const { return is_immediate_; }
  // Runs body, whose want of memory ends the communicator: nobody could go on with what it was in the middle of.
  template <class Body>
  void with_memory(Group& group, Body&& body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      fail(group, no_memory(kOperationNeeds), true);
    }
  }
  // Ranks seem to have made different calls: the service threads compare their records. peer: whose call it is that
  // differs from this rank's, where that is certain.
  void suspect(Group& group, std::uint32_t sequence, int peer = -1);
  void suspect_lines(Group& group, const Operation& waiting);
  void look_behind(Group& group);
  void note_behind(Group& group);
  void leave_exchange(Group& group) {
    group.board.finish();
    if (group.board.is_behind()) note_behind(group);
  }
  // First error of the group: ends all its operations. tell: the other ranks do not know yet.
  void fail(Group& group, const Error& error, bool tell);
  // Of all communicators that have the rank.
  void fail_all_with(int world, const Error& error, bool tell);
  Error no_memory(const std::string& what) const;
  void lane_broke(Route& route);
  // What was unsent has left, or nobody wants it any more.
  void uncount_unsent(Route& route);
  Group* find_group(std::uint64_t id);
  bool is_past(std::uint64_t id) const { return generations_.is_past(id); }

  FramePool& frames() { return frames_; }
  // For a communicator, which has ended where there is no memory to be had (null).
  EarlyFrame* keep_for(Group& group, const transport::FrameHeader& header, int source);
  // Bytes of a counted frame have been used: they go back to the sender's credit in time.
  void consumed(Flow& flow, std::size_t bytes);
  void consumed_small(Flow& flow, std::size_t bytes) {  // of eager
    flow.credit.eager.consumed(bytes);
    if (flow.credit.owes_much()) want_to_send(flow);
  }
  // A whole frame of a step, kept while it arrived: to its operation, which may have been entered meanwhile.
  void arrived_early(Flow& flow, EarlyFrame* frame);
  // A failure of a communicator that this rank has yet to create.
  void note_failed_early(std::uint64_t id, const Error& error);
  // Of a communicator that this rank has not created yet: whether the frame may wait for it, and one that has come
  // whole.
  bool keeps_stray(const transport::FrameHeader& header, int source);
  void stray(EarlyFrame* frame);
  void forget_past();

  // Messages (messages.cpp, probe.cpp)
  void post_message(Operation& operation);
  void post_send(Operation& operation);
  void post_receive(Operation& operation);
  void post_probe(Operation& operation);
  bool known_type(Flow& flow, const transport::FrameHeader& header);
  bool takes_eager(Flow& flow, const transport::FrameHeader& header, Operation*& into);
  void on_eager(Flow& flow, EarlyFrame* frame);
  void on_rts(Flow& flow, const transport::FrameHeader& header, const transport::RemoteAddress& at);
  void on_cts(Flow& flow, const transport::FrameHeader& header);
  // Rendezvous (rendezvous.cpp)
  transport::RemoteAddress address_to_tell(const Flow& flow, const std::byte* payload, std::size_t bytes);
  void note_going(Flow& flow, std::size_t bytes, bool has_address);
  // Up to how many bytes a message to that rank goes without asking.
  std::size_t most_eager(const Group& group, int peer) const;
  Operation* find_cleared(Group& group, std::uint32_t number);
  // A frame that belongs to a communicator but not to an operation: credit, leave, RTS, CTS.
  void on_note(Flow& flow, const transport::FrameHeader& header);

 private:
  // What the driver asks (driven.cpp)
  void begin_driving() override { gone_look_due_ = true; }
  bool move() override;
  bool is_busy() override;
  void about_to_sleep() override;
  bool arm() override { return routes_.arm(); }
  int longest_sleep_ms() const override { return engine_->has_pending() ? 1 : fates_.is_any() ? 20 : 200; }
  int sockets() const override { return routes_.sockets(); }
  bool waits_elsewhere() const override;
  bool is_first_of_two() const override { return on_boards_.front()->board.is_first_of_two(); }
  std::size_t rest_of_frames() const override;
  std::uint64_t received_bytes() const override { return received_bytes_; }

  bool move_all();
  bool handle_events();
  void hear_news();
  void hear_verdict(Group& group);
  void deliver_strays(Group& group);
  void deliver_stray(Flow& flow, EarlyFrame* frame);
  Error sent_too_much(int source) const;
  void activate();
  void activate(Group& group);
  static void number(Operation& operation, control::CallRecord& record, std::uint64_t digest) {
    Group& group = *operation.group;
    record.sequence = group.next_sequence++;
    group.chain = group.chain * 0x9e3779b97f4a7c15ull + digest;
    record.digest = group.chain;
    operation.sequence = record.sequence;
    operation.digest = record.digest;
  }
  void enter(Operation& operation, control::CallRecord& record, std::uint64_t digest);
  void queue(Operation& operation);
  bool room_comes(Board& board, std::size_t bytes) const;
  Board::Seen lines_seen(Board& board, Round round, std::uint64_t digest);
  bool test_once(Operation& operation);
  bool lines_come(const Operation& operation);
  void put_in_window(Operation& operation);
  Entered begin_by_messages(Operation& operation);
  Entered entered(Operation& operation);
  Entered ended_well(Operation& operation);
  void push_routes(const Operation& operation);
  void start(Operation& operation);

  // The board (entering.cpp)
  static constexpr std::uint32_t kNotTold = ~std::uint32_t{0};
  void poll_board(Group& group);
  void list_board(Group& group);
  static std::size_t line_bytes(const Operation& operation);
  void publish_line(Operation& operation);
  void lines_came(Operation& operation, Round round);
  void entries_came(Operation& operation);
  void all_announced(Operation& operation);
  void map_announced(Operation& operation);
  bool has_mapped(const Operation& operation, int rank);
  bool can_read(const Operation& operation, int rank);
  bool reaches_by_address(const Operation& operation, int rank) const;
  void take_schedule(Operation& operation, schedule::Reach reach);
  void begin_reaching(Operation& operation, std::uint32_t first);
  // Announcing (announcing.cpp)
  // Most calls have nothing to ask.
  void choose_way(Operation& operation) {
    if (operation.plans->may_be_staged || operation.stays_away) take_turn(operation);
  }
  void take_turn(Operation& operation);
  void take_plain(Operation& operation);
  void announce(Operation& operation);
  bool enters_again(Operation& operation);
  void publish_entry(Operation& operation);
  std::uint32_t told_by_lines(Operation& operation);
  std::uint32_t told_again(Operation& operation);
  // Staging memory (staging.cpp)
  void set_up_staging(Operation& operation);
  void take_staging(Operation& operation);
  void stage_early(Operation& operation);
  void staging_agreed(Operation& operation, bool everywhere);

  bool undisturbed(const Group& group, const Flow& flow) const;
  bool took_now(Flow& flow, const SmallReceive& taken);

  // ---- Lanes that still have something to send (driven.cpp) ----
  void count_unsent(Route& way);
  void push_or_watch(Route& way);

  // What a thread waits for: the deadlines of these are looked at. Some may be null.
  using Watched = std::span<Operation* const>;
  class WaitForAny;

  void tick(Watched watched);
  void look_for_end(Group& group, std::int64_t now);
  void check_deadline(Operation& watched);
  void check_deadlines();
  // Peers that are gone (gone.cpp)
  void check_gone(bool quiet);
  void check_gone(Group& group, bool quiet);
  void end_what_waits_for(Group& group, int peer, const std::string& how);
  bool is_gone(const Group& group, int peer, std::string& how) const;
  int first_lost(const Group& group) const;
  bool waits_in_vain(const Operation& operation, int peer) const;
  void look_at_early(Group& group);
  static constexpr const char* kOperationNeeds = "what an operation needs";
  std::string describe_now(int world) const;
  std::string waits_for(const Operation& operation) const;
  std::string who_is_absent(const Operation& operation) const;
  void end_all(Group& group, const Error& error);
  void give_back_frames(RunLane& lane);

  // Messages
  std::size_t least_got(const Group& group, int peer) const;
  Sent request_now(Flow& flow, const SmallMessage& message, bool waits);
  bool get_at_once(Flow& flow, SmallReceive& wanted);
  memory::ReadPolicy::Turn turn_of(Flow& flow, std::size_t bytes, bool begins) const;
  bool meets_on_host(const Group& group, int peer) const;
  bool may_be_sent(std::size_t bytes) const;
  bool is_not_wanted(const Flow& flow, std::size_t bytes) const;
  bool can_get(const Flow& flow, const transport::RemoteAddress& at) const;
  bool has_got(Flow& flow, const transport::RemoteAddress& at, std::size_t bytes);
  bool begin_get(Flow& flow, Operation& receive, const transport::RemoteAddress& at);
  void got(const transport::Transferred& ended);
  bool move_transfers();
  struct Refusal {
    Answer answer;
    std::uint32_t messages;  // of send_far: so many
  };
  Refusal refusal(Flow& flow, const transport::RemoteAddress& at, std::size_t bytes, memory::ReadPolicy::Turn turn);
  void have_it_sent(Flow& flow, Operation& receive, Answer answer, std::uint32_t messages);
  void stop_gets(Flow& flow, std::size_t bytes, std::uint32_t messages) const;
  void deliver(Operation& receive, int source, int tag, std::uint16_t dtype, const std::byte* payload,
               std::size_t bytes);
  void take(Operation& receive, const Unexpected& message);
  void send_cts(Flow& flow, std::uint32_t sender_number, std::uint32_t receiver_number, Answer answer,
                std::uint32_t messages = 0);
  bool fits(Operation& receive, int source, int tag, std::uint16_t dtype, std::size_t bytes);
  void keep_unexpected(Group& group, const Unexpected& message);
  bool found_by(Operation& probe);
  void answer(Operation& probe, const Unexpected& message);

  std::unique_ptr<control::Job> job_;
  const int rank_;
  progress::Driver driver_;
  const int sharing_;                 // so many ranks of this host to a processor
  std::uint64_t received_bytes_ = 0;  // of payload, over routes
  const memory::ReadPolicy::Wish staging_;
  const std::unique_ptr<Engine> engine_;
  const bool is_immediate_;  // the engine

  std::int64_t next_tick_ns_ = 0;
  unsigned tests_ = 0;  // in vain

  progress::CompletionBells bells_;
  Routes routes_;
  std::unordered_map<std::uint64_t, Group*> groups_;
  Group* last_group_ = nullptr;
  std::vector<Group*> on_boards_;    // groups that wait for lines of others
  std::vector<Group*> behind_;       // that have ended an exchange without seeing all lines
  std::vector<Operation*> mapping_;  // entering, until what was announced is mapped
  std::vector<Operation*> working_;  // with steps at peers' buffers
  memory::Buffers buffers_;
  memory::PieceCopy copies_;  // into what other ranks load
  Generations generations_;
  std::unordered_map<std::uint64_t, Error> failed_early_;  // failed before they were created here
  FramePool frames_;
  StrayFrames strays_{frames_};
  health::PeerFates fates_;
  bool gone_look_due_ = false;  // something has moved, or was posted, since peers that are gone were last looked for

  OperationPool pool_;
  std::size_t unfinished_ = 0;  // operations posted and not done, and lanes with something unsent
};

}  // namespace anello::executor
