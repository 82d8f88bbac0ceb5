#pragma once
// An atomic operation as the compiler hands it over: what the instrumented code asks the explorer to do.
#include <atomic>
#include <cstdint>

namespace anello::weak_memory {

using Order = std::memory_order;

enum class Kind : std::uint8_t {
  load,
  store,
  update,  // a read-modify-write
  fence,
  barrier,      // a full fence in every thread, where it stands (membarrier)
  ring,         // a bell: lets the thread that waits for it go on, until it is silenced
  silence,      // the bell
  wait,         // for that bell
  await_change  // until something that the thread has read since the last one may read otherwise
};

enum class Update : std::uint8_t { exchange, add, sub, bit_and, bit_or, bit_xor, compare_exchange };

struct Operation {
  Kind kind = Kind::load;
  Order order = Order::relaxed;
  Order order_of_failure = Order::relaxed;  // of a compare_exchange
  Update update = Update::exchange;
  std::uint8_t bytes = 8;
  std::uintptr_t at = 0;  // a bell: its number
  std::uint64_t operand = 0;
  std::uint64_t expected = 0;
};

constexpr bool acquires(Order order) { return order != Order::relaxed && order != Order::release; }
constexpr bool releases(Order order) {
  return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

// What an update stores in place of a value.
constexpr std::uint64_t updated(const Operation& operation, std::uint64_t value) {
  switch (operation.update) {
    case Update::exchange:
    case Update::compare_exchange: return operation.operand;
    case Update::add: return value + operation.operand;
    case Update::sub: return value - operation.operand;
    case Update::bit_and: return value & operation.operand;
    case Update::bit_or: return value | operation.operand;
    case Update::bit_xor: return value ^ operation.operand;
  }
  return value;
}

}  // namespace anello::weak_memory
