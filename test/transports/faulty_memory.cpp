#include "transports/faulty_memory.h"

#include <algorithm>

namespace anello::testing {

using transport::Token;
using transport::Transfer;
using transport::Transferred;

int FaultyMemory::get_now(const Transfer& transfer) {
  const int error = inner_.get_now(transfer);
  return fails() ? faults_.error : error;
}

int FaultyMemory::put_now(const Transfer& transfer) {
  const int error = inner_.put_now(transfer);
  return fails() ? faults_.error : error;
}

void FaultyMemory::get(const Transfer& transfer) {
  if (made_ >= faults_.stall_from) {
    ++made_;
    stalled_.push_back(transfer.token);
    return;
  }
  if (fails()) failing_.push_back(transfer.token);
  inner_.get(transfer);
}

void FaultyMemory::put(const Transfer& transfer) {
  if (fails()) failing_.push_back(transfer.token);
  inner_.put(transfer);
}

std::optional<Transferred> FaultyMemory::poll() {
  while (auto ended = inner_.poll()) {
    const auto failing = std::find(failing_.begin(), failing_.end(), ended->token);
    if (failing != failing_.end()) {
      failing_.erase(failing);
      ended->error = faults_.error;
    }
    ended_.push_back({*ended, faults_.delay_polls});
  }
  if (ended_.empty() || ended_.front().polls-- > 0) return std::nullopt;
  const Transferred told = ended_.front().told;
  ended_.pop_front();
  return told;
}

void FaultyMemory::withdraw(Token token) {
  inner_.withdraw(token);
  std::erase(stalled_, token);
  std::erase(failing_, token);
  std::erase_if(ended_, [token](const Ended& each) { return each.told.token == token; });
}

}  // namespace anello::testing
