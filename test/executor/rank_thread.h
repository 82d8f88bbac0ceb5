#pragma once
// One rank of an executor test: a context over a LocalJob, the whole group, and calls by hand (plan chosen by name).
#include "rank/context.h"
#include "support/catch.h"
#include "support/local_jobs.h"
#include "schedule/catalog.h"
#include "transports/registry.h"

#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace anello::test {

using MakeTransport = std::function<std::unique_ptr<transport::Transport>(const memory::Arena&, int rank)>;

class RankThread {
 public:
  RankThread(LocalJobs& jobs, int rank, std::uint32_t bit, const MakeTransport& make, std::uint32_t first_sequence = 0,
             std::unique_ptr<executor::Engine> engine = executor::make_engine())
      : rank_(rank) {
    auto job = jobs.take(rank);
    const int size = job->size();
    std::vector<executor::AvailableTransport> transports;
    transports.push_back({bit, make(job->arena(), rank)});
    context_ = std::make_unique<executor::Context>(std::move(job), std::move(transports), -1,
                                                   memory::ReadPolicy::Wish::by_time, std::move(engine));
    group_ = add_group(1, size, 0, first_sequence);
  }
  ~RankThread() {
    if (group_) context_->remove_group(*group_);
  }

  std::unique_ptr<executor::Group> add_group(std::uint64_t id, int size, int board, std::uint32_t first_sequence) {
    std::vector<int> ranks(std::size_t(size), 0);
    std::iota(ranks.begin(), ranks.end(), 0);
    executor::Board lines;
    if (board >= 0) lines = executor::Board(context_->job().arena(), board, ranks, rank_, first_sequence + 1, false);
    return context_->add_group(executor::Generations::id(std::uint32_t(id), 0), ranks, std::move(lines),
                               first_sequence);
  }

  executor::Context& context() { return *context_; }
  executor::Group& group() { return *group_; }
  int rank() const { return rank_; }

  // Posts an in-place float32 sum by the named algorithm.
  executor::Operation* allreduce(float* data, std::size_t count, const std::string& algorithm, std::size_t chunk = 4096,
                                 executor::Group* on = nullptr, std::int64_t timeout_ms = 20'000) {
    executor::Group& group = on != nullptr ? *on : *group_;
    schedule::Call call;
    call.collective = schedule::Collective::allreduce;
    call.count = count;
    call.element_bytes = sizeof(float);
    call.in_place = true;
    schedule::Topology topology;
    topology.size = group.size();
    topology.board = bool(group.board);
    topology.board_bytes = executor::Board::capacity();
    const schedule::Algorithm* found = schedule::find(call.collective, algorithm);
    if (found == nullptr) throw std::logic_error("no algorithm " + algorithm);
    executor::Operation* operation = context_->acquire(group);
    operation->kind = ANELLO_ALLREDUCE;
    operation->dtype = ANELLO_FLOAT32;
    operation->op = ANELLO_SUM;
    operation->count = count;
    operation->element_bytes = sizeof(float);
    operation->reducer = &kernels::reducer(ANELLO_FLOAT32, ANELLO_SUM);
    operation->timeout_ns = timeout_ms * 1'000'000;
    operation->output = reinterpret_cast<std::byte*>(data);
    operation->input = operation->output;
    operation->plan = executor::Plan::of(found->make(call, topology, group.rank, chunk));
    recorder::CallRecord record;
    record.kind = ANELLO_ALLREDUCE;
    record.dtype = ANELLO_FLOAT32;
    record.count = count;
    context_->post(*operation, record);
    return operation;
  }

  // Posts a message of bytes to or from a rank.
  executor::Operation* message(anello_kind_t kind, int peer, std::byte* data, std::size_t bytes,
                               std::int64_t timeout_ms = 20'000, int tag = 1) {
    executor::Operation* operation = context_->acquire(*group_);
    operation->kind = kind;
    operation->dtype = ANELLO_BYTE;
    operation->peer = peer;
    operation->tag = tag;
    operation->input = operation->output = data;
    operation->count = bytes;
    operation->element_bytes = 1;
    operation->timeout_ns = timeout_ms * 1'000'000;
    recorder::CallRecord record;
    context_->post(*operation, record);
    return operation;
  }

  Error finish(executor::Operation* operation) {
    context_->wait(*operation);
    const Error error = operation->error;
    context_->release(operation);
    return error;
  }

 private:
  const int rank_;
  std::unique_ptr<executor::Context> context_;
  std::unique_ptr<executor::Group> group_;
};

// Runs body(rank) in a thread per rank. Catch2's assertions are not for threads: body records its findings.
inline void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace anello::test
