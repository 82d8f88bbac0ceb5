// The loop over the other collectives, with separate input and output buffers: --operation allgather, reduce_scatter,
// broadcast, alltoall, reduce, barrier or sendrecv. Sizes are those of the longer side: the data that allgather
// receives, and that reduce_scatter and alltoall send.
//
// A library takes part with `void operate(Operation, const float* in, float* out, size_t count)`, where count is the
// number of elements of the shorter side (of one rank's part). The root is rank 0. sendrecv is one way between ranks 2k
// and 2k+1, which take turns in sending: operate gets the sender's `in`, or null if it receives.
//
// untouched: no rank writes the sent data within a batch. A rank that reads a peer's memory then finds it in its own
//   caches from the previous call.
// dirty: the sender rewrites it before each call (not before a barrier, and from 4 KiB on); the time of rewriting is
//   subtracted, as in loop.h.
// Each batch begins with different values from the one before, and ends with a comparison of the whole result, so an
// incomplete last call of a batch is found, whatever an earlier batch has written there.
#pragma once

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>

#include "memory.h"
#include "meeting.h"
#include "options.h"
#include "series.h"

namespace compare {

enum class Operation { kAllgather, kReduceScatter, kBroadcast, kAlltoall, kReduce, kBarrier, kSendrecv };

inline Operation operation_of(const std::string& name) {
  constexpr const char* kNames[] = {"allgather", "reduce_scatter", "broadcast", "alltoall",
                                    "reduce",    "barrier",        "sendrecv"};
  for (int i = 0; i < 7; ++i)
    if (name == kNames[i]) return static_cast<Operation>(i);
  throw std::runtime_error("unknown --operation " + name);
}

template <typename Library>
class Collectives final {
 public:
  Collectives(const Options& options, Library& library, Meeting& meeting)
      : options_(options),
        operation_(operation_of(options.operation)),
        library_(library),
        meeting_(meeting),
        series_(options, meeting, library.version()),
        rank_(meeting.rank()),
        size_(meeting.size()) {
    if (operation_ == Operation::kSendrecv && size_ % 2 != 0) throw std::runtime_error("sendrecv needs pairs of ranks");
  }

  void measure(size_t bytes) {
    const bool parts = operation_ == Operation::kAllgather || operation_ == Operation::kReduceScatter ||
                       operation_ == Operation::kAlltoall;
    const size_t ranks = static_cast<size_t>(size_);
    count_ = std::max<size_t>(1, bytes / sizeof(float) / (parts ? ranks : 1));
    in_count_ = operation_ == Operation::kReduceScatter || operation_ == Operation::kAlltoall ? count_ * ranks : count_;
    out_count_ = operation_ == Operation::kAllgather || operation_ == Operation::kAlltoall ? count_ * ranks : count_;
    const Memory<Library> in(library_, in_count_ * sizeof(float)), out(library_, out_count_ * sizeof(float));
    in_ = in.floats();
    out_ = out.floats();
    const double moved = static_cast<double>(std::max(in_count_, out_count_) * sizeof(float));
    const double least = operation_ == Operation::kBarrier    ? 1
                         : operation_ == Operation::kSendrecv ? moved * size_ / 2
                                                              : moved * (size_ - 1);
    const auto series = [&](bool dirty) {
      dirty_ = dirty;
      rewrite_ = 1e9;
      series_.measure(bytes, dirty, kMostCalls, least, [&](int calls) { return run_batch(calls); });
    };
    if (options_.untouched) series(false);
    if (options_.dirty && operation_ != Operation::kBarrier && bytes >= kLeastRewritten) series(true);
  }

 private:
  static constexpr int kMostCalls = 1000;
  static constexpr size_t kLeastRewritten = 4096;
  static constexpr size_t kPeriod = 1021;  // exact as float, also summed over 64 ranks

  float value(int rank, size_t i) const {
    return static_cast<float>((i + 31 * static_cast<size_t>(rank) + 7 * static_cast<size_t>(batch_)) % kPeriod + 1);
  }
  float sum(size_t i) const {
    float total = 0;
    for (int rank = 0; rank < size_; ++rank) total += value(rank, i);
    return total;
  }

  bool sends(unsigned turn) const { return (rank_ + static_cast<int>(turn % 2)) % 2 == 0; }
  bool sends_next() const { return operation_ != Operation::kSendrecv || sends(turn_ + 1); }

  // The values do not change. It is not inlined, for the reason given in loop.h.
  [[gnu::noinline]] void rewrite(float one) {
    const bool broadcast = operation_ == Operation::kBroadcast;
    float* const data = broadcast ? out_ : in_;
    const size_t count = !broadcast ? in_count_ : rank_ == 0 ? out_count_ : 0;
    for (size_t i = 0; i < count; ++i) data[i] *= one;
    asm volatile("" ::: "memory");
  }

  void call() {
    ++turn_;
    library_.operate(operation_, operation_ == Operation::kSendrecv && !sends(turn_) ? nullptr : in_, out_, count_);
  }

  // The seconds of one call, on the slowest rank.
  double run_batch(int calls) {
    ++batch_;
    for (size_t i = 0; i < in_count_; ++i) in_[i] = value(rank_, i);
    const bool root = operation_ == Operation::kBroadcast && rank_ == 0;
    for (size_t i = 0; i < out_count_; ++i) out_[i] = root ? value(0, i) : -1.0f;
    meeting_.barrier();
    call();                                          // Untimed: ranks leave the barrier apart.
    if (operation_ == Operation::kSendrecv) call();  // So both have sent even in a batch of one call.
    const double begin = now_seconds();
    for (int i = 0; i < calls; ++i) {
      if (dirty_ && sends_next()) rewrite(one_);
      call();
    }
    double seconds = now_seconds() - begin;
    meeting_.barrier();  // as in loop.h
    verify();
    seconds = meeting_.gather(seconds).largest;
    if (dirty_) {
      // For sendrecv, all ranks also rewrite before each call: in a call, one of two rewrites, and the other waits for
      // it.
      const double alone = now_seconds();
      for (int i = 0; i < calls; ++i) rewrite(one_);
      rewrite_ = std::min(rewrite_, meeting_.gather(now_seconds() - alone).largest / calls);
      seconds -= rewrite_ * calls;
    }
    return seconds / calls;
  }

  void verify() const {
    const size_t first = static_cast<size_t>(rank_) * count_;
    switch (operation_) {
      case Operation::kAllgather:
        return expect([&](size_t i) { return value(static_cast<int>(i / count_), i % count_); });
      case Operation::kReduceScatter: return expect([&](size_t i) { return sum(first + i); });
      case Operation::kBroadcast: return expect([&](size_t i) { return value(0, i); });
      case Operation::kAlltoall:
        return expect([&](size_t i) { return value(static_cast<int>(i / count_), first + i % count_); });
      case Operation::kReduce:
        if (rank_ == 0) expect([&](size_t i) { return sum(i); });
        return;
      case Operation::kBarrier: return;
      case Operation::kSendrecv: return expect([&](size_t i) { return value(rank_ ^ 1, i); });
    }
  }

  template <typename Expected>
  void expect(Expected expected) const {
    for (size_t i = 0; i < out_count_; ++i) {
      if (out_[i] == expected(i)) continue;
      std::ostringstream text;
      text << "wrong result: element " << i << " of " << out_count_ << " is " << out_[i] << ", not " << expected(i);
      throw std::runtime_error(text.str());
    }
  }

  const Options& options_;
  const Operation operation_;
  Library& library_;
  Meeting& meeting_;
  Series series_;
  const int rank_, size_;
  float* in_ = nullptr;
  float* out_ = nullptr;
  size_t count_ = 0, in_count_ = 0, out_count_ = 0;
  unsigned batch_ = 0, turn_ = 0;
  bool dirty_ = false;
  double rewrite_ = 0;  // seconds of rewriting once
  volatile float one_ = 1.0f;
};

}  // namespace compare
