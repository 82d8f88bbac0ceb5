#pragma once
// An engine whose steps are pending until the test lets them go.
#include "executor/engine.h"
#include "executor/operation.h"

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

namespace anello::test {

// Keeps all steps until `let_go` is set.
class HeldEngine final : public executor::Engine {
 public:
  explicit HeldEngine(const std::atomic<bool>& let_go) : let_go_(let_go) {}

  bool is_immediate() const override { return false; }
  bool issue(const executor::Ticket& ticket, const executor::ResolvedStep& step) override {
    held_.push_back({ticket, step});
    return false;
  }
  std::optional<executor::Completed> take() override {
    if (!let_go_ || held_.empty()) return {};
    const auto [ticket, step] = held_.back();
    held_.pop_back();
    executor::run_step(*ticket.operation, step);
    return executor::Completed{ticket, {}, {}};
  }
  bool withdraw(const executor::Operation& operation) override {
    std::erase_if(held_, [&](const auto& each) { return each.first.operation == &operation; });
    return true;
  }
  bool has_pending() const override { return !held_.empty(); }

 private:
  const std::atomic<bool>& let_go_;
  std::vector<std::pair<executor::Ticket, executor::ResolvedStep>> held_;
};

}  // namespace anello::test
