#include "weak_memory/explorer.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include <dlfcn.h>

namespace anello::weak_memory {
namespace {

constexpr std::uintptr_t kLine = 64;

// Addresses of code are told as addr2line takes them.
std::uintptr_t beginning_of_program() {
  Dl_info found;
  return ::dladdr(reinterpret_cast<const void*>(&beginning_of_program), &found) != 0
             ? reinterpret_cast<std::uintptr_t>(found.dli_fbase)
             : 0;
}

bool is_consistent(const Operation& operation) { return operation.order == Order::seq_cst; }
bool writes(const Operation& operation) { return operation.kind != Kind::load; }

// Whether two operations of different threads, both possible now, lead to the same state in either order. A load and a
// store do: with the same choice, the load reads the same message before the store as after it.
bool are_independent(const Operation& a, const Operation& b) {
  if (a.kind == Kind::barrier || b.kind == Kind::barrier) return false;
  if (a.kind == Kind::await_change || b.kind == Kind::await_change) return true;
  if (is_consistent(a) && is_consistent(b) && (a.at == 0 || b.at == 0 || a.at == b.at)) return false;
  return a.at == 0 || a.at != b.at || !writes(a) || !writes(b);
}

const char* word(Order order) {
  switch (order) {
    case Order::relaxed: return "relaxed";
    case Order::consume: return "consume";
    case Order::acquire: return "acquire";
    case Order::release: return "release";
    case Order::acq_rel: return "acq_rel";
    default: return "seq_cst";
  }
}

constexpr const char* kWords[] = {"load", "store",   "update", "fence",       "barrier",
                                  "ring", "silence", "wait",   "await change"};

}  // namespace

std::string in_words(const Place& place) {
  const std::string what = kWords[std::size_t(place.kind)];
  return what + (place.kind == Kind::fence ? " after " : " ") + place.field + ' ' + word(place.order);
}

void Explorer::share(void* memory, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  ranges_.push_back({at, at + bytes});
}

bool Explorer::is_shared(std::uintptr_t at) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [at](const Range& each) { return at >= each.begin && at < each.end; });
}

std::uint64_t Explorer::perform(Operation operation) {
  Thread& by = *threads_[std::size_t(current_)];
  if (operation.at != 0 && operation.kind < Kind::fence) touch(operation.at, 0, true, 0);
  if (operation.kind <= Kind::fence) {
    const char* const field = operation.kind == Kind::fence ? by.last_field : program_->field(operation.at);
    if (operation.kind != Kind::fence) by.last_field = field;
    seen_.insert({operation.kind, field, operation.order});
    for (const Place& each : weakened_) {
      if (each.kind != operation.kind || each.order != operation.order || each.field != field) continue;
      operation.order = operation.order_of_failure = Order::relaxed;
    }
    if (operation.kind == Kind::fence && operation.order == Order::relaxed) return 0;
  }
  by.next = operation;
  by.fiber.pause();
  return by.result;
}

void Explorer::touch(std::uintptr_t at, std::size_t bytes, bool stores, std::uintptr_t code) {
  if (stores) {
    for (std::uintptr_t line = at / kLine; line <= (at + std::max<std::size_t>(bytes, 1) - 1) / kLine; ++line)
      if (line != std::exchange(last_touched_, line)) touched_.insert(line);
  }
  if (bytes > 0 && current_ >= 0) check_race(current_, memory_.touch(current_, at, bytes, stores, code), code);
}

void Explorer::erase_touched() {
  for (const std::uintptr_t line : touched_) {
    for (const Range& each : ranges_) {
      const std::uintptr_t begin = std::max(each.begin, line * kLine), end = std::min(each.end, (line + 1) * kLine);
      if (begin < end) std::memset(reinterpret_cast<void*>(begin), 0, end - begin);
    }
  }
  touched_.clear();
  last_touched_ = 0;
}

void Explorer::check_race(int thread, const Access* race, std::uintptr_t code) {
  if (race == nullptr) return;
  const std::uintptr_t base = beginning_of_program();
  std::ostringstream why;
  why << "data race: " << program_->names[std::size_t(thread)] << " (code at 0x" << std::hex << code - base << ") and "
      << program_->names[race->thread] << " (code at 0x" << race->code - base << std::dec << "), which "
      << (race->writes ? "stores to " : "loads ") << int(race->bytes) << " bytes at " << int(race->offset)
      << " of a line; neither happens before the other";
  fail(why.str());
}

void Explorer::fail(std::string why) {
  if (outcome_.failure.empty()) outcome_.failure = std::move(why);
}

void Explorer::await_change() {
  Operation operation;
  operation.kind = Kind::await_change;
  perform(operation);
}

void Explorer::barrier() {
  Operation operation;
  operation.kind = Kind::barrier;
  perform(operation);
}

// The kernel's lock orders both sides of a bell.
void Explorer::use_bell(Kind kind, int bell) {
  Operation operation;
  operation.kind = kind;
  operation.order = Order::acq_rel;
  operation.at = reinterpret_cast<std::uintptr_t>(&bells_[std::size_t(bell)]);
  operation.operand = kind == Kind::silence ? 0 : 1;
  perform(operation);
}

void Explorer::resume(int thread) {
  current_ = thread;
  threads_[std::size_t(thread)]->has_ended = !threads_[std::size_t(thread)]->fiber.resume();
  current_ = -1;
}

// All that can be done in this state, without what sleeps.
void Explorer::open_node(std::size_t depth) {
  Node& made = nodes_.emplace_back();
  if (depth > 0 && reduces_) {
    const Node& before = nodes_[depth - 1];
    const Transition& taken = before.todo[before.at];
    const auto stays_asleep = [&](const Transition& each) {
      if (each.thread != taken.thread && are_independent(each.operation, taken.operation)) made.asleep.push_back(each);
    };
    std::for_each(before.asleep.begin(), before.asleep.end(), stays_asleep);
    std::for_each(before.todo.begin(), before.todo.begin() + std::ptrdiff_t(before.at), stays_asleep);
  }
  bool can_move = false, has_ended = true;
  std::string waiting;
  for (int thread = 0; thread < int(threads_.size()); ++thread) {
    const Thread& each = *threads_[std::size_t(thread)];
    if (each.has_ended) continue;
    has_ended = false;
    memory_.find_choices(thread, each.next, &choices_);
    if (choices_.empty()) waiting += (waiting.empty() ? "" : ", ") + program_->names[std::size_t(thread)];
    for (const std::uint32_t choice : choices_) {
      can_move = true;
      const bool sleeps = std::any_of(made.asleep.begin(), made.asleep.end(), [&](const Transition& other) {
        return other.thread == thread && other.choice == choice;
      });
      if (!sleeps) made.todo.push_back({thread, choice, each.next});
    }
  }
  if (!can_move && !has_ended) fail(waiting + ": waits forever");
  is_cut_ = can_move && made.todo.empty();
}

// False: the execution is over.
bool Explorer::step(std::size_t depth) {
  if (depth == nodes_.size()) open_node(depth);
  Node& node = nodes_[depth];
  if (node.todo.empty() || !outcome_.failure.empty()) return false;
  const Transition& taken = node.todo[node.at];
  Thread& by = *threads_[std::size_t(taken.thread)];
  // The memory makes its locations when an operation on them is looked at, also in a repeated execution.
  for (int thread = 0; thread < int(threads_.size()); ++thread) {
    if (!threads_[std::size_t(thread)]->has_ended)
      memory_.find_choices(thread, threads_[std::size_t(thread)]->next, &choices_);
  }
  by.result = memory_.execute(taken.thread, by.next, taken.choice);
  if (tells_) done_.push_back(describe(taken) + " = " + std::to_string(by.result));
  check_race(taken.thread, memory_.race(), 0);
  if (by.next.kind == Kind::await_change && memory_.is_stutter(taken.thread)) {
    is_cut_ = true;
    return false;
  }
  resume(taken.thread);
  return true;
}

std::string Explorer::describe(const Transition& transition) const {
  const Operation& operation = transition.operation;
  std::ostringstream words;
  words << program_->names[std::size_t(transition.thread)] << ": " << kWords[std::size_t(operation.kind)];
  if (operation.at != 0 && operation.kind < Kind::fence)
    words << ' ' << program_->field(operation.at) << " at 0x" << std::hex << operation.at << std::dec;
  if (operation.kind <= Kind::fence) words << ' ' << word(operation.order);
  if (operation.kind == Kind::store || operation.kind == Kind::update) words << ' ' << operation.operand;
  return words.str();
}

void Explorer::run_once() {
  program_->clear();
  erase_touched();
  bells_.fill(0);
  is_cut_ = false;
  const std::vector<std::function<void()>> bodies = program_->begin();
  memory_.begin(int(bodies.size()));
  while (threads_.size() < bodies.size()) threads_.push_back(std::make_unique<Thread>());
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    threads_[i]->fiber.set(bodies[i]);
    threads_[i]->last_field = "nothing";
    resume(int(i));
  }
  for (std::size_t depth = 0; step(depth); ++depth) continue;
  if (is_cut_ || !outcome_.failure.empty()) return;
  program_->end();
}

// Moves to the next alternative. False: there is none.
bool Explorer::backtrack() {
  while (!nodes_.empty()) {
    Node& last = nodes_.back();
    if (last.at + 1 < last.todo.size()) {
      ++last.at;
      return true;
    }
    nodes_.pop_back();
  }
  return false;
}

Outcome Explorer::explore(const Program& program, std::uint64_t most_executions) {
  program_ = &program;
  outcome_ = {};
  nodes_.clear();
  seen_.clear();
  threads_.clear();
  running_ = this;
  do {
    run_once();
    ++(is_cut_ ? outcome_.cut : outcome_.executions);
    if (!outcome_.failure.empty()) break;
    outcome_.is_complete = !backtrack();
  } while (!outcome_.is_complete && outcome_.executions + outcome_.cut < most_executions);
  if (!outcome_.failure.empty()) {
    // Once more, in words.
    std::string failure = std::exchange(outcome_.failure, {});
    tells_ = true;
    done_.clear();
    run_once();
    tells_ = false;
    for (const std::string& each : done_) failure += "\n  " + each;
    outcome_.failure = failure;
  }
  program.clear();
  erase_touched();
  running_ = nullptr;
  for (const auto& [kind, field, order] : seen_) outcome_.places.insert({kind, field, order});
  return std::exchange(outcome_, {});
}

}  // namespace anello::weak_memory
