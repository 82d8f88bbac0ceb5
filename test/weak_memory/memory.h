#pragma once
// Memory as C++20 lets threads see it, in the form of views: RC11 without load buffering (a load reads a store that has
// been executed). Each location keeps every message stored to it, in modification order; a thread's view holds, for
// each location, the oldest message that the thread may still read. A release store gives its view to the message, an
// acquire load joins it, an update passes on that of the message which it replaces, and a relaxed load keeps it for a
// later acquire fence. Sequentially consistent operations and fences take effect in the order of the exploration, by a
// view that they share. A store may go anywhere in modification order that its thread's view allows, not only last.
//
// Happens-before is kept beside the views, as vector clocks: a sequentially consistent fence orders what threads read,
// and does not excuse a data race.
#include "weak_memory/operation.h"
#include "weak_memory/races.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace anello::weak_memory {

inline constexpr int kMaxLocations = 48;

struct View {
  std::array<std::uint16_t, kMaxLocations> newest{};  // index of a message at each location
  Clock clock{};
};

class Memory {
 public:
  void begin(int threads);

  // What the operation may read, or the message behind which it may store: names that stay the same in every order of
  // execution. Empty: the thread must wait.
  void find_choices(int thread, const Operation& operation, std::vector<std::uint32_t>* choices);
  // Returns the value read.
  std::uint64_t execute(int thread, const Operation& operation, std::uint32_t choice);
  // A plain access. Returns the access that it races with, or null.
  const Access* touch(int thread, std::uintptr_t at, std::size_t bytes, bool writes, std::uintptr_t code);
  // The same for the last operation executed.
  const Access* race() const { return race_; }

  // Whether the rounds that ended with the thread's last two await_change read the same messages.
  bool is_stutter(int thread) const { return threads_[std::size_t(thread)].stutters; }

  static constexpr std::uint32_t kInitial = 0xffffff;

 private:
  struct Message {
    std::uint64_t value = 0;
    std::uint32_t name = kInitial;
    std::uint16_t position = 0;  // in modification order
    bool is_replaced = false;    // an update stands directly behind it
    bool is_plain = false;       // its value is in memory, not here yet
    View released;
  };
  struct Location {
    std::uintptr_t at = 0;
    std::uint8_t bytes = 0;
    std::vector<Message> messages;  // in order of execution
    std::vector<std::uint16_t> order;
  };
  struct Read {
    std::uint16_t location, message;
    bool operator==(const Read&) const = default;
  };
  struct Thread {
    View view;
    View of_fence;   // what its last release fence gives to later relaxed stores
    View for_fence;  // what an acquire fence will join
    std::uint32_t named = 0;
    std::vector<Read> round, round_before;
    bool stutters = false;
  };

  int find(std::uintptr_t at, std::uint8_t bytes);
  Message& newest_seen(const View& view, int location) {
    Location& where = locations_[std::size_t(location)];
    return where.messages[view.newest[std::size_t(location)]];
  }
  void join(View* into, const View& from);
  void see(View* view, int location, std::uint16_t message);
  std::uint16_t add(int thread, int location, std::size_t position, std::uint64_t value);
  std::uint16_t index_of(const Location& where, std::uint32_t name) const;
  std::uint64_t read(Thread& by, int location, std::uint16_t message, Order order);
  void write(int thread, int location, std::uint16_t message, Order order, const View* replaced);
  void fence(Thread& by, Order order);
  void take_plain_value(Location& where);
  std::uint64_t execute_update(int thread, int location, const Operation& operation, std::uint16_t replaced);

  std::vector<Thread> threads_;
  std::vector<Location> locations_;
  std::size_t used_ = 0;  // locations of this execution; the others keep their room
  View consistent_;       // of sequentially consistent operations
  Races races_;
  const Access* race_ = nullptr;
};

}  // namespace anello::weak_memory
