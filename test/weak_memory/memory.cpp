#include "weak_memory/memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace anello::weak_memory {
namespace {

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "weak memory: %s\n", why);
  std::abort();
}

std::uint64_t value_at(std::uintptr_t at, std::uint8_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(at), bytes);
  return value;
}

}  // namespace

void Memory::begin(int threads) {
  threads_.resize(std::size_t(threads));
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& each = threads_[i];
    each.view = each.of_fence = each.for_fence = View{};
    each.view.clock[i] = 1;
    each.named = 0;
    each.round.clear();
    each.round_before.clear();
    each.stutters = false;
  }
  used_ = 0;
  consistent_ = View{};
  races_.begin();
  race_ = nullptr;
}

// The initial message is what lay there when a thread first used the location as an atomic one: what came before was
// plain, and is checked as such.
int Memory::find(std::uintptr_t at, std::uint8_t bytes) {
  for (std::size_t i = 0; i < used_; ++i)
    if (locations_[i].at == at) return int(i);
  if (used_ == kMaxLocations) give_up("more atomic locations than kMaxLocations");
  if (used_ == locations_.size()) locations_.emplace_back();
  Location& made = locations_[used_];
  made.at = at;
  made.bytes = bytes;
  made.messages.assign(1, Message{});
  made.messages[0].value = value_at(at, bytes);
  made.order.assign(1, 0);
  return int(used_++);
}

void Memory::take_plain_value(Location& where) {
  Message& last = where.messages[where.order.back()];
  if (last.is_plain) last.value = value_at(where.at, where.bytes);
  last.is_plain = false;
}

std::uint16_t Memory::index_of(const Location& where, std::uint32_t name) const {
  for (std::size_t i = 0; i < where.messages.size(); ++i)
    if (where.messages[i].name == name) return std::uint16_t(i);
  give_up("a choice is gone: the program does not repeat itself");
}

void Memory::see(View* view, int location, std::uint16_t message) {
  const Location& where = locations_[std::size_t(location)];
  std::uint16_t& newest = view->newest[std::size_t(location)];
  if (where.messages[message].position > where.messages[newest].position) newest = message;
}

void Memory::join(View* into, const View& from) {
  for (std::size_t i = 0; i < used_; ++i)
    if (from.newest[i] != 0) see(into, int(i), from.newest[i]);
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (from.clock[i] > into->clock[i]) into->clock[i] = from.clock[i];
}

void Memory::find_choices(int thread, const Operation& operation, std::vector<std::uint32_t>* choices) {
  choices->clear();
  Thread& by = threads_[std::size_t(thread)];
  if (operation.kind == Kind::await_change) {
    for (const Read& each : by.round) {
      const Location& where = locations_[each.location];
      if (where.messages[each.message].position + 1u < where.order.size()) {
        choices->push_back(0);
        return;
      }
    }
    return;
  }
  if (operation.at == 0) {
    choices->push_back(0);
    return;
  }
  const int location = find(operation.at, operation.bytes);
  Location& where = locations_[std::size_t(location)];
  take_plain_value(where);
  if (operation.kind == Kind::wait) {
    if (where.messages[where.order.back()].value != 0) choices->push_back(where.messages[where.order.back()].name);
    return;
  }
  std::size_t first = newest_seen(by.view, location).position;
  if (operation.order == Order::seq_cst)
    first = std::max<std::size_t>(first, newest_seen(consistent_, location).position);
  for (std::size_t i = where.order.size(); i-- > first;) {
    const Message& each = where.messages[where.order[i]];
    const bool is_compared = operation.kind == Kind::update && operation.update == Update::compare_exchange;
    const bool only_reads = operation.kind == Kind::load || (is_compared && each.value != operation.expected);
    if (only_reads || !each.is_replaced) choices->push_back(each.name);
  }
}

std::uint16_t Memory::add(int thread, int location, std::size_t position, std::uint64_t value) {
  Location& where = locations_[std::size_t(location)];
  const auto index = std::uint16_t(where.messages.size());
  Message& made = where.messages.emplace_back();
  made.value = value;
  made.name = (std::uint32_t(thread) << 24) + ++threads_[std::size_t(thread)].named;
  where.order.insert(where.order.begin() + std::ptrdiff_t(position), index);
  for (std::size_t i = position; i < where.order.size(); ++i)
    where.messages[where.order[i]].position = std::uint16_t(i);
  return index;
}

std::uint64_t Memory::read(Thread& by, int location, std::uint16_t message, Order order) {
  Message& from = locations_[std::size_t(location)].messages[message];
  see(&by.view, location, message);
  join(&by.for_fence, from.released);
  if (acquires(order)) join(&by.view, from.released);
  if (order == Order::seq_cst) see(&consistent_, location, message);
  by.round.push_back({std::uint16_t(location), message});
  return from.value;
}

// replaced: what the replaced message released, if this is an update.
void Memory::write(int thread, int location, std::uint16_t message, Order order, const View* replaced) {
  Thread& by = threads_[std::size_t(thread)];
  Location& where = locations_[std::size_t(location)];
  see(&by.view, location, message);
  View released = releases(order) ? by.view : by.of_fence;
  see(&released, location, message);
  if (replaced != nullptr) join(&released, *replaced);
  where.messages[message].released = released;
  if (order == Order::seq_cst) see(&consistent_, location, message);
  if (where.order.back() != message) return;
  const std::uint64_t value = where.messages[message].value;
  std::memcpy(reinterpret_cast<void*>(where.at), &value, where.bytes);
}

void Memory::fence(Thread& by, Order order) {
  if (acquires(order)) join(&by.view, by.for_fence);
  if (order == Order::seq_cst) {
    const Clock happened = by.view.clock;
    View seen = consistent_;
    seen.clock = Clock{};
    join(&by.view, seen);
    consistent_ = by.view;
    by.view.clock = happened;
  }
  if (releases(order)) by.of_fence = by.view;
}

std::uint64_t Memory::execute_update(int thread, int location, const Operation& operation, std::uint16_t replaced) {
  Thread& by = threads_[std::size_t(thread)];
  Location& where = locations_[std::size_t(location)];
  const std::uint64_t mask = operation.bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * operation.bytes) - 1;
  const std::uint64_t old = where.messages[replaced].value;
  if (operation.update == Update::compare_exchange && old != operation.expected)
    return read(by, location, replaced, operation.order_of_failure);
  read(by, location, replaced, operation.order);
  const View passed_on = where.messages[replaced].released;
  where.messages[replaced].is_replaced = true;
  const std::uint16_t made =
      add(thread, location, where.messages[replaced].position + 1u, updated(operation, old) & mask);
  write(thread, location, made, operation.order, &passed_on);
  return old;
}

std::uint64_t Memory::execute(int thread, const Operation& operation, std::uint32_t choice) {
  Thread& by = threads_[std::size_t(thread)];
  std::uint64_t value = 0;
  race_ = nullptr;
  if (operation.kind == Kind::fence) {
    fence(by, operation.order);
  } else if (operation.kind == Kind::barrier) {
    fence(by, Order::seq_cst);
    for (Thread& each : threads_) fence(each, Order::seq_cst);
    fence(by, Order::seq_cst);
  } else if (operation.kind == Kind::await_change) {
    by.stutters = by.round == by.round_before;
    by.round_before = std::move(by.round);
    by.round.clear();
  } else {
    const int location = find(operation.at, operation.bytes);
    Location& where = locations_[std::size_t(location)];
    const std::uint16_t chosen = index_of(where, choice);
    const bool is_bell = operation.kind >= Kind::ring;
    if (!is_bell)
      race_ = races_.touch(thread, by.view.clock, operation.at, operation.bytes, operation.kind != Kind::load, true, 0);
    if (operation.kind == Kind::load) {
      value = read(by, location, chosen, operation.order);
    } else if (operation.kind == Kind::store) {
      const std::uint16_t made = add(thread, location, where.messages[chosen].position + 1u, operation.operand);
      write(thread, location, made, operation.order, nullptr);
    } else {
      value = execute_update(thread, location, operation, chosen);
    }
  }
  ++by.view.clock[std::size_t(thread)];
  return value;
}

const Access* Memory::touch(int thread, std::uintptr_t at, std::size_t bytes, bool writes, std::uintptr_t code) {
  Thread& by = threads_[std::size_t(thread)];
  const Access* const race = races_.touch(thread, by.view.clock, at, bytes, writes, false, code);
  if (!writes) return race;
  // A plain store over an atomic location: what it leaves there is the location's next message.
  for (std::size_t i = 0; i < used_; ++i) {
    Location& where = locations_[i];
    if (where.at >= at + bytes || at >= where.at + where.bytes) continue;
    const std::uint16_t made = add(thread, int(i), where.order.size(), 0);
    where.messages[made].is_plain = true;
    see(&by.view, int(i), made);
  }
  return race;
}

}  // namespace anello::weak_memory
