#include "executor/operation_pool.h"

#include "executor/group.h"

namespace anello::executor {
namespace {

// Frees the scratch of a large call: first touch costs, but so does a process that never shrinks. for_good: the call
// is not made again.
void trim(Operation& operation, bool for_good) {
  constexpr std::size_t kKeep = 64 * 1024 * 1024;
  for (std::vector<std::byte>* memory : {&operation.run.accumulator, &operation.staged.memory}) {
    if (memory->size() <= kKeep) continue;
    std::vector<std::byte>().swap(*memory);
    operation.run.serves.reset();
  }
  // A region would have to be registered with adapters again for the next call.
  if (operation.run.scratch.size() <= kKeep || (operation.run.scratch.is_region() && !for_good)) return;
  operation.run.scratch.free();
  operation.run.serves.reset();
}

}  // namespace

void OperationPool::renew(Operation& operation) {
  trim(operation, false);
  operation.done.store(false, std::memory_order_relaxed);
  operation.state = Operation::State::idle;
  operation.error = Error();
  operation.status = {-1, -1, 0};
  operation.round = Round::none;
  operation.published = false;
  operation.peer_work.step = PeerWork::kNoStep;
  operation.peer_work.next.clear();
  operation.peer_work.without = -1;
  operation.peer_work.pending = 0;
  operation.run.pending = 0;
  operation.exposed = false;
  operation.staged_early = false;
  operation.announced_anew = false;
  operation.sequence = operation.group->next_sequence;  // its number in errors if it never enters
  operation.movement = 0;
  operation.moved = 0;
  operation.noted = recorder::MessageLog::kNone;
  operation.last_progress_ns = 0;
  operation.asked_ns = 0;
}

Operation* OperationPool::take(Group& group) {
  Operation* operation = free_.pop();
  if (operation == nullptr) {
    all_.push_back(std::make_unique<Operation>());
    operation = all_.back().get();
  }
  operation->group = &group;
  operation->bytes = 0;
  operation->claims = false;
  operation->claim = 0;
  operation->plans.reset();
  renew(*operation);
  operation->reducer = nullptr;
  operation->custom.reset();
  operation->function_threw = false;
  operation->staged.result = nullptr;
  return operation;
}

void OperationPool::give_back(Operation* operation) {
  operation->plan.reset();
  operation->run.serves.reset();
  operation->plans.reset();
  operation->custom.reset();
  operation->shadow.reset();
  operation->group = nullptr;
  operation->state = Operation::State::idle;
  trim(*operation, true);
  free_.push(operation);
}

}  // namespace anello::executor
