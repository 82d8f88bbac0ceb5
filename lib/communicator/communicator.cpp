#include "communicator/communicator.h"

#include "base/config.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/join.h"
#include "communicator/amounts.h"
#include "communicator/in_place.h"
#include "communicator/premultiply.h"
#include "communicator/reduction.h"
#include "communicator/varying.h"
#include "control/occupancy.h"
#include "executor/fold.h"
#include "executor/run.h"
#include "schedule/shape.h"
#include "schedule/tuning.h"
#include "transports/registry.h"
#include "base/store_barrier.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

namespace anello {

using executor::Operation;

namespace {

constexpr std::uint64_t kWholeJob = executor::Generations::id(0, 1);

// Exchanges on a board are numbered from here on. 0 is what a fresh board's lines say: none of the first ones.
std::uint32_t first_exchange(std::int64_t first_sequence) {
  const auto number = static_cast<std::uint32_t>(first_sequence + 1);
  return number == 0 || number > UINT32_MAX - memory::kBoardLines ? 1 : number;
}

memory::ReadPolicy::Wish wish_to_stage(const std::string& staging) {
  using Wish = memory::ReadPolicy::Wish;
  return staging == "never" ? Wish::never : staging == "always" ? Wish::always : Wish::by_time;
}

// All ranks read the same of rank 0's and so find the same, errors too. Throws Error.
schedule::Wish wish_of(const control::Shared& shared, int rank) {
  schedule::Wish wish{shared.algorithm, static_cast<std::size_t>(std::max<std::int64_t>(0, shared.chunk_bytes))};
  const control::TuningFile& file = shared.tuning;
  static_assert(control::TuningFile::kMostBytes <= schedule::kMostTuningBytes);
  if (!file.problem.empty())
    throw Error(ANELLO_ERR_ARGUMENT, text("the tuning table ", file.path, " of rank 0 cannot be read: ", file.problem,
                                          "; ANELLO_TUNING=none does without"));
  if (file.path.empty()) return wish;
  auto tuning = std::make_shared<schedule::Tuning>(schedule::parse_tuning(file.text, file.path));
  if (tuning->machine != file.machine) {
    if (rank == 0)
      log::warn(rank, "the tuning table ", file.path, " was measured on another machine (", tuning->machine,
                "; this is ", file.machine, ") and is not used; anello-tune makes one for this machine");
    return wish;
  }
  if (rank == 0) log::info(rank, "choices as ", file.path, " has them, ", tuning->rules.size(), " rules");
  wish.tuning = std::move(tuning);
  return wish;
}

// Where what goes in stands, and what comes out.
void set_buffers(Operation& operation, const anello_call_t& call, InPlace place) {
  operation.output =
      static_cast<std::byte*>(place == InPlace::own_part ? const_cast<void*>(call.sendbuf) : call.recvbuf);
  // A scatter's root finds its part where it is.
  const bool inside = place == InPlace::yes && call.kind != ANELLO_SCATTER && call.kind != ANELLO_SCATTERV;
  operation.input = inside ? operation.output : static_cast<const std::byte*>(call.sendbuf);
}

}  // namespace

std::shared_ptr<Communicator> Communicator::create(const anello_config_t& config) {
  const Config& environment = Config::get();
  const schedule::Wish asked{environment.algorithm, 0};
  if (const std::string wrong = schedule::why_not(asked); !wrong.empty()) {
    throw Error(ANELLO_ERR_ARGUMENT, text("ANELLO_ALGORITHM=", environment.algorithm, ": ", wrong));
  }
  // Before there is a service thread: the kernel then has no other thread to wait for, which takes it 7 ms.
  agrees_to_store_barriers();
  std::unique_ptr<control::Job> job = bootstrap::join(config);
  schedule::Wish wish = wish_of(job->shared(), job->rank());
  std::vector<executor::Context::Carrier> carriers;
  std::uint32_t wanted = 0;
  for (const control::Member& member : job->members()) wanted |= member.transport;
  const transport::Means means{job->arena(), environment.tcp_congestion,
                               control::occupancy_of(job->members(), job->rank()).ranks_per_processor(),
                               environment.checksum};
  for (const transport::Row& row : transport::registry()) {
    if ((wanted & row.bit) != 0) carriers.push_back({row.bit, row.make(means)});
  }
  std::vector<int> ranks(static_cast<std::size_t>(job->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const int board = share_arena(*job, ranks) && job->size() > 1 ? 0 : -1;
  const std::int64_t timeout_ms = config.timeout_ms > 0 ? config.timeout_ms : environment.timeout_ms;
  auto context = std::make_shared<executor::Context>(std::move(job), std::move(carriers), environment.spin_us,
                                                     wish_to_stage(environment.staging));
  return std::shared_ptr<Communicator>(
      new Communicator(std::move(context), std::move(wish), kWholeJob, std::move(ranks), board, timeout_ms));
}

Communicator::Communicator(std::shared_ptr<executor::Context> context, schedule::Wish wish, std::uint64_t id,
                           std::vector<int> ranks, int board, std::int64_t timeout_ms)
    : context_(std::move(context)), timeout_ms_(timeout_ms), board_(board), wish_(std::move(wish)) {
  control::Job& job = context_->job();
  const std::vector<control::Member>& members = job.members();
  const control::Member& self = members[std::size_t(job.rank())];
  local_size_ = 0;
  std::map<std::string, int> ranks_on;
  std::map<std::string, control::Processors> processors_of;
  std::vector<int> local;
  for (const int world : ranks) {
    const control::Member& member = members[std::size_t(world)];
    if (member.host == self.host) {
      if (world == job.rank()) local_rank_ = local_size_;
      ++local_size_;
    }
    ++ranks_on[member.host];
    processors_of[member.host].join(member.processors);
    local.push_back(member.local_index);
  }
  topology_.size = static_cast<int>(ranks.size());
  std::map<std::uint64_t, int> machines;
  for (const int world : ranks) {
    const auto host = machines.try_emplace(members[std::size_t(world)].machine, int(machines.size())).first;
    topology_.host_of.push_back(host->second);
  }
  std::map<std::pair<std::string, control::Processors::Words>, int> processors;
  for (const int world : ranks) {
    const control::Member& member = members[std::size_t(world)];
    const auto known = processors.try_emplace({member.host, member.processors.allowed()}, int(processors.size())).first;
    topology_.processors_of.push_back(known->second);
  }
  if (processors.size() == 1 || processors.size() == ranks.size()) topology_.processors_of.clear();
  topology_.board = board >= 0;
  topology_.board_bytes = board >= 0 ? executor::Board::capacity() : 0;
  topology_.network = board < 0 && topology_.size > 1;
  topology_.oversubscribed = std::any_of(ranks_on.begin(), ranks_on.end(), [&](const auto& host) {
    return host.second > processors_of[host.first].count();
  });
  std::uint32_t carriers = 0;
  for (const int world : ranks) carriers |= members[std::size_t(world)].transport;
  for (const transport::Row& row : transport::registry()) {
    if ((carriers & row.bit) != 0) transports_ += text(transports_.empty() ? "" : ",", row.name);
  }
  if (transports_.empty()) transports_ = "self";
  const auto me = static_cast<int>(std::find(ranks.begin(), ranks.end(), job.rank()) - ranks.begin());
  executor::Board lines;
  if (board >= 0) {
    lines = executor::Board(job.arena(), board, std::move(local), me, first_exchange(job.shared().first_sequence),
                            control::share_processors(members, ranks));
  }
  group_ = context_->add_group(id, std::move(ranks), std::move(lines),
                               static_cast<std::uint32_t>(job.shared().first_sequence));
  topology_.staging_bytes = board >= 0 && !group_->by_address ? schedule::usual_staging_bytes(group_->size()) : 0;
}

Communicator::~Communicator() { destroy(); }

Error Communicator::destroy() {
  Error first;
  std::call_once(destroyed_, [&] {
    first = context_->remove_group(*group_);
    {
      const auto held = context_->lock();
      if (last_.operation != nullptr) context_->release_locked(std::exchange(last_.operation, nullptr));
    }
    give_back_board();
  });
  return first;
}

Error Communicator::first_error() {
  const auto held = context_->lock();
  return group_->error;
}

std::vector<int> Communicator::lost_ranks() { return context_->lost_ranks(*group_); }

std::vector<int> Communicator::suspected_ranks() { return context_->suspected_ranks(*group_); }

const control::Member& Communicator::member(int rank) const {
  return context_->job().members()[std::size_t(group_->ranks[std::size_t(rank)])];
}

const char* Communicator::transport_to(int peer) const {
  for (const transport::Row& row : transport::registry()) {
    if (member(peer).transport == row.bit) return row.name.data();  // of a literal
  }
  return "self";
}

// ---- Calls ----

std::shared_ptr<const executor::Plans> Communicator::plans(const schedule::Call& call) {
  // Counts seldom come again: such a plan is made for its call and kept nowhere.
  const bool kept = call.varying == nullptr;
  std::unique_lock held(plans_mutex_, std::defer_lock);
  if (kept) held.lock();
  if (auto known = kept ? plans_.find(call) : nullptr) return known;
  auto made = std::make_shared<executor::Plans>();
  const schedule::Choice plain = schedule::choose(call, topology_, wish_);
  const auto make_plan =
      [&](const schedule::Call& made_for, const schedule::Topology& topology, const schedule::Choice& choice) {
    return executor::Plan::of(choice.algorithm->make(made_for, topology, rank(), choice.chunk));
  };
  bool reads_on_trial = false;
  bool by_library = false;  // and by no wish or measured table; in the end, of memory that all may store to
  bool announces = schedule::profits_from_reach(call, topology_, wish_);
  for (const schedule::Reach reach : {schedule::Reach::none, schedule::Reach::read, schedule::Reach::store}) {
    if (reach != schedule::Reach::none && !announces) continue;
    schedule::Call reaching = call;
    reaching.reach = reach;
    const schedule::Decision decision = schedule::decide(reaching, topology_, wish_);
    const schedule::Choice& choice = decision.choice;
    by_library = decision.rule != nullptr && decision.rule->line == 0;
    if (reach == schedule::Reach::read) reads_on_trial = by_library && decision.rule->reach == reach;
    if (reach != schedule::Reach::none && choice == plain) {
      made->add(reach, made->at(schedule::Reach::none));
      continue;
    }
    auto plan = make_plan(reaching, topology_, choice);
    announces = announces || plan->meets;  // who meets takes turns on the board, as who announces does
    if (plan->schedule.staging > 0 && made->unstaged == nullptr) {
      schedule::Topology without = topology_;
      without.staging_bytes = 0;
      made->unstaged = make_plan(call, without, schedule::choose(call, without, wish_));
    }
    log::debug(context_->rank(), schedule::name(call.collective), "(count ", call.count, "): ", choice.algorithm->name,
               reach == schedule::Reach::none ? "" : " where ranks reach each other's buffers (",
               reach == schedule::Reach::none ? "" : schedule::name(reach), reach == schedule::Reach::none ? "" : ")",
               ", chunks of ", choice.chunk * call.element_bytes, " bytes, ", plan->schedule.steps.size(), " steps");
    made->add(reach, std::move(plan));
  }
  made->reads_on_trial = reads_on_trial && by_library && made->at(schedule::Reach::none)->schedule.staging > 0;
  // An all-reduce's results are stored to all ranks' buffers: no line goes back to its owner by itself.
  const bool is_concerned = by_library && call.collective != schedule::Collective::allreduce;
  made->may_be_staged =
      is_concerned && (made->may_stage_at_once() || made->may_exchange_at_once() || made->may_send_at_once());
  if (kept) plans_.keep(call, made);
  return made;
}

schedule::Call Communicator::planned(const anello_call_t& call, InPlace place, const Reduction& reduction) const {
  const bool reduces = kind_reduces(call.kind);
  schedule::Call planned;
  planned.collective = executor::operation_collective(call.kind);
  planned.count = kind_is_varying(call.kind)    ? counts_total(call, size())
                  : call.kind == ANELLO_BARRIER ? 0
                                                : call.count;
  planned.element_bytes = reduction.element_bytes;
  planned.root = kind_has_root(call.kind) ? call.peer : 0;
  planned.invariant = reduces && (context_->job().shared().invariant || reduction.in_order());
  // Alone the input is the result as it is, also of AVG, whose division would make one NaN of all.
  planned.finish = reduces && reduction.reducer->finishes && size() > 1;
  planned.accumulate = reduces && reduction.reducer->accumulates;
  // A scaled input lies where the result will.
  planned.in_place = reduction.premultiplies() ? amounts_of(call, rank(), size()).out > 0 : place != InPlace::no;
  planned.own_part = place == InPlace::own_part && !reduction.premultiplies();
  if (call.algorithm != nullptr) {
    if (const auto* row = schedule::find(planned.collective, call.algorithm)) planned.algorithm = row->name;
  }
  return planned;
}

Error Communicator::why_not_algorithm(const anello_call_t& call) const {
  schedule::Call asked = planned(call, InPlace::no, reduction_of(call));
  // Whether ranks reach each other's buffers is found out later: one that needs it is passed over where they do not.
  asked.reach = schedule::Reach::store;
  const schedule::Algorithm* const row = schedule::find(asked.collective, asked.algorithm);
  if (row != nullptr && row->fits(asked, topology_)) return {};
  return {ANELLO_ERR_ARGUMENT,
          text("anello_", kind_name(call.kind), Label(call.label).quoted(), ": algorithm ",
               Label(call.algorithm).c_str(), row == nullptr ? " is none that it has" : " does not fit this call",
               "; here it may be ", schedule::names_that_fit(asked, topology_))};
}

void Communicator::prepare(Operation& operation, const anello_call_t& call, control::CallRecord& record) {
  operation.kind = call.kind;
  operation.dtype = call.kind == ANELLO_BARRIER ? ANELLO_UINT8 : call.dtype;
  operation.op = kind_reduces(call.kind) ? call.op : ANELLO_SUM;
  operation.peer = call.peer;
  operation.tag = call.tag;
  operation.count = call.kind == ANELLO_BARRIER ? 0 : call.count;
  const Reduction reduction = reduction_of(call);
  operation.element_bytes = reduction.element_bytes;
  operation.reducer = reduction.reducer;
  // A number that is meant as "none" does not wrap: 70 years.
  constexpr std::int64_t kMostMs = INT64_MAX / 4'000'000;
  operation.timeout_ns = std::min(call.timeout_ms > 0 ? call.timeout_ms : timeout_ms_, kMostMs) * 1'000'000;
  operation.label.set(call.label);
  InPlace place = is_message(call.kind) ? InPlace::no : in_place(call, rank());
  // A scaled input lies elsewhere, and what is around this rank's part of the caller's stays as it is.
  if (place == InPlace::own_part && reduction.premultiplies()) place = InPlace::no;
  set_buffers(operation, call, place);
  if (is_message(call.kind)) return;
  if (reduction.own_function()) operation.custom = reduction.custom;
  if (reduction.premultiplies())
    premultiply(operation, *reduction.custom, place == InPlace::yes, amounts_of(call, rank(), size()));

  schedule::Call asked = planned(call, place, reduction);
  operation.count = asked.count;
  if (kind_is_varying(call.kind)) asked.varying = varying_of(call, rank(), size(), place != InPlace::no);
  operation.plans = plans(asked);
  operation.placed = 0;
  operation.forget_places();
  operation.mappings.clear();
  operation.plan = operation.plans->at(schedule::Reach::none);
  if (operation.announces()) expose(operation, asked);

  record.kind = call.kind;
  record.dtype = operation.dtype;
  record.op = reduction.op;
  record.root = asked.root;
  record.count = operation.count;
  record.algorithm = control::named_algorithm(asked.algorithm);
  record.set_label(operation.label);
  if (kind_is_varying(call.kind) && !kind_has_root(call.kind)) {
    record.root = static_cast<std::int32_t>(counts_digest(call, size()));
  }
}

// Where this rank's buffers are, for a call whose ranks say so.
void Communicator::expose(Operation& operation, const schedule::Call& call) const {
  const std::size_t element = operation.element_bytes;
  operation.input_inside = schedule::input_in_output(call, rank());
  operation.input_at = operation.input_inside ? schedule::input_offset(call, rank()) * element : 0;
  operation.input_bytes = schedule::input_count(call, size(), rank()) * element;
  operation.output_bytes = schedule::extent(schedule::Buffer::output, call, size(), rank()) * element;
}

std::size_t Communicator::most_eager(int peer) {
  const auto held = context_->lock();
  return context_->most_eager(*group_, peer);
}

executor::TakenMessages Communicator::taken_messages() {
  const auto held = context_->lock();
  return group_->taken;
}

Communicator::Outlook Communicator::outlook(const anello_call_t& call) {
  if (is_message(call.kind)) return {};
  const schedule::Call asked = planned(call, in_place(call, rank()), reduction_of(call));
  const schedule::Choice choice = schedule::choose(asked, topology_, wish_);
  const auto held = context_->lock();
  return {group_->next_sequence, choice.algorithm->name.data()};  // of a literal
}

Operation* Communicator::start(const anello_call_t& call, int record_kind, std::uint32_t claim) {
  Operation* operation = context_->acquire(*group_);
  control::CallRecord record;
  try {
    prepare(*operation, call, record);
    operation->claim = claim;
    if (record_kind >= 0) record.kind = record_kind;
    context_->post(*operation, record);
  } catch (...) {
    context_->release(operation);
    throw;
  }
  return operation;
}

Operation* Communicator::post(const anello_call_t& call, std::uint32_t claim) {
  Operation* operation = start(call, -1, claim);
  context_->leave_to_background();
  return operation;
}

std::optional<Communicator::Probed> Communicator::probe(const anello_call_t& call, bool waits, bool claims) {
  struct Release {
    executor::Context& context;
    Operation* operation;
    ~Release() { context.release(operation); }
  } const held{*context_, context_->acquire(*group_)};
  Operation& operation = *held.operation;
  control::CallRecord record;
  prepare(operation, call, record);
  operation.claims = claims;
  if (waits) {
    context_->post(operation, record);
    context_->wait(operation);
    if (operation.error) throw operation.error;
  } else if (!context_->probe_now(operation)) {
    return std::nullopt;
  }
  return Probed{operation.status, operation.claim};
}

bool Communicator::is_like_last(const anello_call_t& call, InPlace place, int record_kind) const {
  const anello_call_t& last = last_.call;
  return call.kind == last.kind && call.count == last.count && call.dtype == last.dtype && call.op == last.op &&
         call.peer == last.peer && call.timeout_ms == last.timeout_ms && record_kind == last_.record_kind &&
         place == last_.in_place && asks_like_last(call) && last_.operation != nullptr;
}

bool Communicator::asks_like_last(const anello_call_t& call) const {
  return call.algorithm == nullptr ? last_.algorithm.empty() : last_.algorithm == call.algorithm;
}

// Makes `last_` of this call.
void Communicator::prepare_last(const anello_call_t& call, InPlace place, int record_kind) {
  if (last_.operation == nullptr) last_.operation = context_->acquire_locked(*group_);
  Operation* const operation = std::exchange(last_.operation, nullptr);
  try {
    last_ = {nullptr, nullptr, call, {}, {}, place, record_kind, {}, 0};
    if (call.algorithm != nullptr)
      last_.algorithm = schedule::find(executor::operation_collective(call.kind), call.algorithm)->name;
    prepare(*operation, call, last_.record);
  } catch (...) {
    context_->release_locked(operation);
    throw;
  }
  if (record_kind >= 0) last_.record.kind = record_kind;
  last_.digest = control::digest_of(last_.record);
  last_.operation = operation;
}

// Inline in both of the ways to it, one of which is the shortest of all.
[[gnu::always_inline]] inline bool Communicator::enter_last(Operation** under_way) {
  using Entered = executor::Context::Entered;
  Operation* const operation = last_.operation;
  Entered done = Entered::not_begun;
  try {
    if (operation->announces()) {
      done = context_->walk_now(*operation, last_.record, last_.digest);
    } else if (operation->plan->is_exchange) {
      done = context_->exchange_now(*operation, last_.record, last_.digest);
    }
    if (done == Entered::not_begun) done = context_->enter_now(*operation, last_.record, last_.digest);
  } catch (...) {
    // Half entered, for want of memory: nobody can go on with it, and the others wait.
    last_.operation = nullptr;
    context_->fail(*group_, context_->no_memory(text("what ", kind_name(operation->kind), " needs")), true);
    if (operation->done.load(std::memory_order_relaxed)) context_->release_locked(operation);
    throw;
  }
  if (done == Entered::complete) return true;
  *under_way = last_.under_way = std::exchange(last_.operation, nullptr);
  return false;
}

// A blocking collective, prepared like the last one where it is like it; one that needs nothing but the board from
// start to end under one hold of the lock. True: it is complete, without error. Otherwise *under_way is the operation
// if it was entered, and null if nothing has happened.
bool Communicator::enter(const anello_call_t& call, int record_kind, Operation** under_way) {
  *under_way = nullptr;
  if (is_message(call.kind) || kind_is_varying(call.kind) || is_custom_op(call.op)) return false;
  const auto held = context_->lock_shortly();
  if (!held || group_->error) return false;
  const InPlace place = in_place(call, rank());
  if (!is_like_last(call, place, record_kind)) prepare_last(call, place, record_kind);
  Operation& operation = *last_.operation;
  set_buffers(operation, call, place);
  if (call.sendbuf != last_.call.sendbuf || call.recvbuf != last_.call.recvbuf) operation.forget_places();
  last_.call.sendbuf = call.sendbuf;
  last_.call.recvbuf = call.recvbuf;
  if (operation.plan->is_exchange && !operation.announces()) executor::prepare_exchange(*group_, operation);
  if (call.label != nullptr || !operation.label.empty()) {
    operation.label.set(call.label);
    last_.record.set_label(operation.label);
  }
  last_.plain = record_kind < 0 ? PlainCall::of(call) : std::nullopt;
  last_mark_.store(last_.plain ? last_.plain->mark() : 0, std::memory_order_relaxed);
  return enter_last(under_way);
}

executor::Context::Entered Communicator::repeat(const PlainCall& call, Operation** operation) {
  using Entered = executor::Context::Entered;
  if (last_mark_.load(std::memory_order_relaxed) != call.mark()) return Entered::not_begun;
  const auto held = context_->lock_shortly();
  if (!held || group_->error || last_.operation == nullptr || last_.plain != call) return Entered::not_begun;
  return enter_last(operation) ? Entered::complete : Entered::under_way;
}

namespace {

inline executor::SmallMessage message_of(const PlainSend& send) {
  return {static_cast<const std::byte*>(send.buffer), send.count * dtype_bytes(send.dtype), send.tag,
          short_dtype(send.dtype)};
}

[[gnu::always_inline]] inline bool receive_shortly(executor::Context& context, executor::Group& group,
                                                   const PlainReceive& receive, anello_status_t* status) {
  executor::SmallReceive wanted{static_cast<std::byte*>(receive.buffer), receive.count * dtype_bytes(receive.dtype),
                                receive.tag, short_dtype(receive.dtype)};
  if (!context.receive_now(group, receive.source, wanted)) return false;
  if (status != nullptr) *status = {receive.source, wanted.tag, wanted.bytes / dtype_bytes(receive.dtype)};
  return true;
}

}  // namespace

executor::Context::Entered Communicator::pass(const PlainSend& send, bool waits, Operation** operation) {
  using executor::Context;
  const auto held = context_->lock_shortly();
  if (!held) return Context::Entered::not_begun;
  const Context::Sent sent = context_->send_now(*group_, send.dest, message_of(send), waits);
  if (sent == Context::Sent::complete) return Context::Entered::complete;
  if (sent == Context::Sent::not_begun) return Context::Entered::not_begun;
  *operation = rest_of(send, sent);
  return Context::Entered::under_way;
}

bool Communicator::pass(const PlainReceive& receive, anello_status_t* status) {
  const auto held = context_->lock_shortly();
  return held && receive_shortly(*context_, *group_, receive, status);
}

Communicator::Passed Communicator::pass(const PlainSend& send, const PlainReceive& receive, anello_status_t* status,
                                        Operation** sending) {
  using executor::Context;
  const auto held = context_->lock_shortly();
  if (!held) return Passed::neither;
  const Context::Sent sent = context_->send_now(*group_, send.dest, message_of(send), false);
  if (sent == Context::Sent::not_begun) return Passed::neither;
  if (sent != Context::Sent::complete) {
    *sending = rest_of(send, sent);
    return Passed::send_under_way;
  }
  return receive_shortly(*context_, *group_, receive, status) ? Passed::both : Passed::send;
}

// An operation for a message that has gone in part, or has been offered.
Operation* Communicator::rest_of(const PlainSend& send, executor::Context::Sent sent) {
  Operation* operation = nullptr;
  try {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_SEND;
    call.sendbuf = send.buffer;
    call.count = send.count;
    call.dtype = send.dtype;
    call.peer = send.dest;
    call.tag = send.tag;
    operation = context_->acquire_locked(*group_);
    control::CallRecord record;
    prepare(*operation, call, record);
  } catch (...) {
    if (operation != nullptr) context_->release_locked(operation);
    context_->fail(*group_, context_->no_memory("the rest of a message"), true);
    throw;
  }
  context_->go_on_sending(*operation, sent);
  return operation;
}

Error Communicator::run(const anello_call_t& call, anello_status_t* status, int record_kind, std::int64_t* sequence) {
  Operation* operation = nullptr;
  if (enter(call, record_kind, &operation)) return {};
  if (operation == nullptr) operation = start(call, record_kind);
  return wait_for(operation, status, sequence);
}

Error Communicator::wait_for(Operation* operation, anello_status_t* status, std::int64_t* sequence) {
  context_->wait(*operation);
  Error error = operation->error;
  if (error && sequence != nullptr && !is_message(operation->kind)) *sequence = operation->sequence;
  if (status != nullptr && has_status(operation->kind)) *status = operation->status;
  give_back(operation);
  return error;
}

// After its call. What was prepared for it serves the next one, unless another came between.
void Communicator::give_back(Operation* operation) {
  const auto held = context_->lock();
  if (last_.under_way == operation) {
    last_.under_way = nullptr;
    if (!operation->error && !group_->error) {
      context_->renew_locked(*operation);
      last_.operation = operation;
      return;
    }
  }
  context_->release_locked(operation);
}

void Communicator::refuse(const anello_call_t& call, anello_result_t result, int record_kind) {
  if (is_message(call.kind)) return;
  Operation* operation = context_->acquire(*group_);
  operation->kind = call.kind;
  control::CallRecord record;
  record.kind = record_kind >= 0 ? record_kind : call.kind;
  record.dtype = call.dtype;
  record.op = call.op;
  record.root = call.peer;
  record.count = call.count;
  record.refused = static_cast<std::int16_t>(result);
  record.set_label(Label(call.label));
  context_->post(*operation, record);
  context_->release(operation);
}

void Communicator::abort(const std::string& reason) {
  const std::string who = context_->job().describe(context_->rank());
  context_->abort(*group_, Error(ANELLO_ERR_ABORTED,
                                 reason.empty() ? text(who, " aborted the communicator")
                                                : text(who, " aborted the communicator: ", reason),
                                 context_->rank()));
}

}  // namespace anello
