// An engine that runs every step later, in random order, and sometimes tells of its end later still. A library built
// with it in place of the host's shows what of Anello takes a step for done that is not.
//
// LATE_ENGINE_SEED: of the order. LATE_ENGINE_SKIP=N: one step in N is told of and never run, so that a test can be
// seen to fail.
#include "executor/engine.h"

#include "executor/operation.h"
#include "kernels/default_floats.h"

#include <atomic>
#include <cstdlib>
#include <random>
#include <vector>

namespace anello::executor {
namespace {

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t next_seed() {
  static std::atomic<std::uint64_t> engines{0};
  return number_in("LATE_ENGINE_SEED", 1) * 1'000'003 + engines++;
}

class LateEngine final : public Engine {
 public:
  bool is_immediate() const override { return false; }

  bool issue(const Ticket& ticket, const ResolvedStep& step) override {
    pending_.push_back({{ticket, {}, {}}, step, false});
    return false;
  }

  std::optional<Completed> take() override {
    if (pending_.empty() || one_in(3)) return {};
    const std::size_t chosen = random_() % pending_.size();
    run(pending_[chosen]);
    if (one_in(4)) return {};  // it is done, and nobody hears of it yet
    const Completed completed = pending_[chosen].completed;
    pending_.erase(pending_.begin() + std::ptrdiff_t(chosen));
    return completed;
  }

  bool withdraw(const Operation& operation) override {
    std::erase_if(pending_, [&](Pending& each) {
      if (each.completed.ticket.operation != &operation) return false;
      if (one_in(2)) run(each);  // a device ends what it has begun
      return true;
    });
    return true;
  }

  bool has_pending() const override { return !pending_.empty(); }

 private:
  struct Pending {
    Completed completed;
    ResolvedStep step;
    bool has_run;
  };

  bool one_in(unsigned many) { return random_() % many == 0; }

  void run(Pending& pending) {
    if (pending.has_run) return;
    pending.has_run = true;
    if (skip_ != 0 && one_in(unsigned(skip_))) return;
    const kernels::DefaultFloats floats;
    try {
      run_step(*pending.completed.ticket.operation, pending.step);
    } catch (const ReadFailure& failure) {
      pending.completed.failure = failure;
    }
  }

  std::minstd_rand random_{static_cast<std::minstd_rand::result_type>(next_seed())};
  const std::uint64_t skip_ = number_in("LATE_ENGINE_SKIP", 0);
  std::vector<Pending> pending_;
};

}  // namespace

std::unique_ptr<Engine> make_engine() { return std::make_unique<LateEngine>(); }

}  // namespace anello::executor
