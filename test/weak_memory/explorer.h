#pragma once
// Runs a small program of two to four threads in every way that weak memory allows: depth first over the order of their
// atomic operations and over the messages that each of them may read. Sleep sets leave out orders that differ only in
// operations that do not affect each other. Each execution starts from the beginning and repeats the choices of the one
// before, up to the last that has an alternative.
//
// The threads run the real code. It is compiled for the test with -fsanitize=thread and linked to instrumentation.cpp
// in place of that sanitizer's library, so that each atomic operation and each plain access of shared memory comes
// here.
#include "weak_memory/fiber.h"
#include "weak_memory/memory.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace anello::weak_memory {

// A descriptor of kFirstBell or below is a bell, counted downwards.
inline constexpr int kFirstBell = -1000;

// An atomic operation by its place in the program: the kind, and the field that it works on. A fence goes by the field
// that its thread's last atomic operation before it worked on.
struct Place {
  Kind kind;
  std::string field;
  Order order;
  auto operator<=>(const Place&) const = default;
};

std::string in_words(const Place& place);

struct Program {
  std::vector<std::string> names;  // of the threads
  // Makes the state of an execution and returns the threads' bodies. Runs before them, alone.
  std::function<std::vector<std::function<void()>>()> begin;
  // Destroys that state, if there is any; also after an execution that was cut short.
  std::function<void()> clear = [] {};
  // Runs after all threads have ended: the place for checks of the outcome.
  std::function<void()> end = [] {};
  // The name of the field at an address.
  std::function<const char*(std::uintptr_t)> field = [](std::uintptr_t) { return "memory"; };
};

struct Outcome {
  std::uint64_t executions = 0;  // complete ones
  std::uint64_t cut = 0;         // that would only have repeated others, or run in circles
  bool is_complete = false;      // every execution has been seen
  std::string failure;           // of the last execution, with its order of operations; empty: none
  std::set<Place> places;        // all that were executed
};

class Explorer {
 public:
  // Memory that threads share. Atomic operations and plain accesses elsewhere are not looked at. It is zero at the
  // beginning of each execution.
  void share(void* memory, std::size_t bytes);
  // Makes the operations at that place relaxed; a fence, none.
  void weaken(Place place) { weakened_.push_back(std::move(place)); }
  // Explores every order, also those that differ in nothing: slow, and the same outcomes.
  void leave_nothing_out() { reduces_ = false; }
  Outcome explore(const Program& program, std::uint64_t most_executions);

  // For the bodies of threads: the program is wrong.
  void fail(std::string why);
  // Where a body has looked in vain, in a loop that stores nothing: it looks again once something has changed.
  void await_change();
  // A bell (an eventfd) by number, and a full fence in every thread (membarrier).
  void ring(int bell) { use_bell(Kind::ring, bell); }
  void silence(int bell) { use_bell(Kind::silence, bell); }
  void wait_for(int bell) { use_bell(Kind::wait, bell); }
  void barrier();

  // For the instrumented code.
  static Explorer* running() { return running_; }
  bool is_shared(std::uintptr_t at) const;
  bool is_in_thread() const { return current_ >= 0; }
  std::uint64_t perform(Operation operation);
  void touch(std::uintptr_t at, std::size_t bytes, bool writes, std::uintptr_t code);

 private:
  struct Transition {
    int thread;
    std::uint32_t choice;
    Operation operation;
  };
  struct Node {
    std::vector<Transition> asleep;  // explored before, and nothing since affects them
    std::vector<Transition> todo;
    std::size_t at = 0;
  };
  struct Thread {
    Fiber fiber;
    Operation next;
    std::uint64_t result = 0;
    bool has_ended = false;
    const char* last_field = "nothing";
  };
  struct Range {
    std::uintptr_t begin, end;
  };

  void use_bell(Kind kind, int bell);
  void run_once();
  void resume(int thread);
  bool step(std::size_t depth);
  void open_node(std::size_t depth);
  bool backtrack();
  void erase_touched();
  void check_race(int thread, const Access* race, std::uintptr_t code);
  std::string describe(const Transition& transition) const;

  static inline Explorer* running_ = nullptr;
  std::vector<Range> ranges_;
  std::vector<Place> weakened_;
  const Program* program_ = nullptr;
  Memory memory_;
  std::vector<std::unique_ptr<Thread>> threads_;
  int current_ = -1;
  std::vector<Node> nodes_;
  std::vector<std::string> done_;  // the operations of a repeated execution, in words
  bool tells_ = false;
  std::set<std::uintptr_t> touched_;  // lines
  std::uintptr_t last_touched_ = 0;
  std::array<std::uint64_t, kMaxThreads> bells_{};
  std::set<std::tuple<Kind, const char*, Order>> seen_;
  std::vector<std::uint32_t> choices_;
  bool is_cut_ = false;
  bool reduces_ = true;
  Outcome outcome_;
};

}  // namespace anello::weak_memory
