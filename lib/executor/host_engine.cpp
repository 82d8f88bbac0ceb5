#include "executor/engine.h"

namespace anello::executor {
namespace {

class HostEngine final : public Engine {
 public:
  bool is_immediate() const override { return true; }
  bool issue(const Ticket& ticket, const ResolvedStep& step) override {
    run_step(*ticket.operation, step);
    return true;
  }
  std::optional<Completed> take() override { return {}; }
  bool withdraw(const Operation&) override { return true; }
  bool has_pending() const override { return false; }
};

}  // namespace

std::unique_ptr<Engine> make_engine() { return std::make_unique<HostEngine>(); }

}  // namespace anello::executor
