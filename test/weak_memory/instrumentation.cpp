// Takes the place of ThreadSanitizer's library: the functions that code compiled with -fsanitize=thread calls before
// each plain access and in place of each atomic operation. The memory order comes as a number, as std::memory_order
// counts.
#include "weak_memory/explorer.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include <sys/types.h>

using namespace anello::weak_memory;

namespace {

template <class T>
std::uint64_t number(T value) {
  std::uint64_t all = 0;
  std::memcpy(&all, &value, sizeof value);
  return all;
}

// The explorer, if this is an operation that it must decide.
Explorer* decider(const volatile void* at) {
  Explorer* const explorer = Explorer::running();
  if (explorer == nullptr || !explorer->is_shared(reinterpret_cast<std::uintptr_t>(at))) return nullptr;
  if (explorer->is_in_thread()) return explorer;
  explorer->touch(reinterpret_cast<std::uintptr_t>(at), 1, true, 0);  // to be erased
  return nullptr;
}

Explorer* explorer_of_bell(int descriptor) {
  Explorer* const explorer = Explorer::running();
  return explorer != nullptr && descriptor <= kFirstBell && explorer->is_in_thread() ? explorer : nullptr;
}

void plain(const void* at, std::size_t bytes, bool writes, void* code) {
  Explorer* const explorer = Explorer::running();
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (explorer == nullptr || bytes == 0 || !explorer->is_shared(begin)) return;
  explorer->touch(begin, bytes, writes, reinterpret_cast<std::uintptr_t>(code));
}

template <class T>
Operation operation(Kind kind, const volatile T* at, int order) {
  Operation made;
  made.kind = kind;
  made.order = static_cast<Order>(order);
  made.bytes = sizeof(T);
  made.at = reinterpret_cast<std::uintptr_t>(at);
  return made;
}

template <class T>
T load(const volatile T* at, int order) {
  Explorer* const explorer = decider(at);
  if (explorer == nullptr) return __atomic_load_n(at, __ATOMIC_SEQ_CST);
  return static_cast<T>(explorer->perform(operation(Kind::load, at, order)));
}

template <class T>
void store(volatile T* at, T value, int order) {
  Explorer* const explorer = decider(at);
  if (explorer == nullptr) return __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
  Operation made = operation(Kind::store, at, order);
  made.operand = number(value);
  explorer->perform(made);
}

template <class T>
T update(Update how, volatile T* at, T value, int order) {
  Operation made = operation(Kind::update, at, order);
  made.update = how;
  made.operand = number(value);
  if (Explorer* const explorer = decider(at)) return static_cast<T>(explorer->perform(made));
  T old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(at, &old, static_cast<T>(updated(made, number(old))), false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST))
    continue;
  return old;
}

template <class T>
bool compare_exchange(volatile T* at, T* expected, T value, int order, int order_of_failure) {
  Explorer* const explorer = decider(at);
  if (explorer == nullptr)
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  Operation made = operation(Kind::update, at, order);
  made.update = Update::compare_exchange;
  made.order_of_failure = static_cast<Order>(order_of_failure);
  made.operand = number(value);
  made.expected = number(*expected);
  const T old = static_cast<T>(explorer->perform(made));
  return std::exchange(*expected, old) == old;
}

}  // namespace

#define ANELLO_CODE __builtin_return_address(0)
#define ANELLO_PLAIN(bytes)                                                             \
  void __tsan_read##bytes(void* at) { plain(at, bytes, false, ANELLO_CODE); }           \
  void __tsan_write##bytes(void* at) { plain(at, bytes, true, ANELLO_CODE); }           \
  void __tsan_volatile_read##bytes(void* at) { plain(at, bytes, false, ANELLO_CODE); }  \
  void __tsan_volatile_write##bytes(void* at) { plain(at, bytes, true, ANELLO_CODE); }  \
  void __tsan_unaligned_read##bytes(void* at) { plain(at, bytes, false, ANELLO_CODE); } \
  void __tsan_unaligned_write##bytes(void* at) { plain(at, bytes, true, ANELLO_CODE); }
#define ANELLO_UPDATE(bits, T, name, how) \
  T __tsan_atomic##bits##_##name(volatile T* at, T value, int order) { return update(how, at, value, order); }
#define ANELLO_ATOMIC(bits, T)                                                                                    \
  T __tsan_atomic##bits##_load(const volatile T* at, int order) { return load(at, order); }                       \
  void __tsan_atomic##bits##_store(volatile T* at, T value, int order) { store(at, value, order); }               \
  ANELLO_UPDATE(bits, T, exchange, Update::exchange)                                                              \
  ANELLO_UPDATE(bits, T, fetch_add, Update::add)                                                                  \
  ANELLO_UPDATE(bits, T, fetch_sub, Update::sub)                                                                  \
  ANELLO_UPDATE(bits, T, fetch_and, Update::bit_and)                                                              \
  ANELLO_UPDATE(bits, T, fetch_or, Update::bit_or)                                                                \
  ANELLO_UPDATE(bits, T, fetch_xor, Update::bit_xor)                                                              \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value, int order, int other) { \
    return compare_exchange(at, expected, value, order, other);                                                   \
  }                                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T value, int order, int other) {   \
    return compare_exchange(at, expected, value, order, other);                                                   \
  }                                                                                                               \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int order, int other) {       \
    compare_exchange(at, &expected, value, order, other); /* clang's */                                           \
    return expected;                                                                                              \
  }

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

ANELLO_PLAIN(1)
ANELLO_PLAIN(2)
ANELLO_PLAIN(4)
ANELLO_PLAIN(8)
ANELLO_PLAIN(16)
void __tsan_read_range(void* at, std::size_t bytes) { plain(at, bytes, false, ANELLO_CODE); }
void __tsan_write_range(void* at, std::size_t bytes) { plain(at, bytes, true, ANELLO_CODE); }

ANELLO_ATOMIC(8, std::uint8_t)
ANELLO_ATOMIC(16, std::uint16_t)
ANELLO_ATOMIC(32, std::uint32_t)
ANELLO_ATOMIC(64, std::uint64_t)

void __tsan_atomic_thread_fence(int order) {
  Explorer* const explorer = Explorer::running();
  if (explorer == nullptr || !explorer->is_in_thread()) return;
  Operation made;
  made.kind = Kind::fence;
  made.order = static_cast<Order>(order);
  explorer->perform(made);
}
// Holds the compiler back, and no processor.
void __tsan_atomic_signal_fence(int) {}

// Linked in place of the functions without __wrap_ (the linker's --wrap): copies are plain accesses, and a bell's
// descriptor does not exist.
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  plain(from, bytes, false, ANELLO_CODE);
  plain(to, bytes, true, ANELLO_CODE);
  return __real_memcpy(to, from, bytes);
}
// What clang calls for objects that are copied or filled whole.
void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) { return __wrap_memcpy(to, from, bytes); }
void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
  plain(from, bytes, false, ANELLO_CODE);
  plain(to, bytes, true, ANELLO_CODE);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, std::size_t bytes) {
  plain(to, bytes, true, ANELLO_CODE);
  return std::memset(to, value, bytes);
}

ssize_t __real_write(int descriptor, const void* from, std::size_t bytes);
ssize_t __wrap_write(int descriptor, const void* from, std::size_t bytes) {
  Explorer* const explorer = explorer_of_bell(descriptor);
  if (explorer == nullptr) return __real_write(descriptor, from, bytes);
  explorer->ring(kFirstBell - descriptor);
  return ssize_t(bytes);
}

ssize_t __real_read(int descriptor, void* to, std::size_t bytes);
ssize_t __wrap_read(int descriptor, void* to, std::size_t bytes) {
  Explorer* const explorer = explorer_of_bell(descriptor);
  if (explorer == nullptr) return __real_read(descriptor, to, bytes);
  explorer->silence(kFirstBell - descriptor);
  return ssize_t(bytes);
}
}
