#include "executor/shadows.h"

#include "base/clock.h"
#include "base/kind.h"
#include "base/text.h"
#include "device/imported.h"
#include "device/waiting_streams.h"
#include "executor/entering.h"
#include "executor/messages.h"
#include "executor/outcomes.h"
#include "executor/run.h"
#include "executor/stream_calls.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <time.h>

namespace anello::executor {
namespace {

// Copies end by themselves; those of a device that hangs do not.
constexpr std::int64_t kMostWaitMs = 1000;

bool is_send(const Operation& operation) { return operation.kind == ANELLO_SEND; }
// The receiver has taken it, and waits for it on the host.
bool is_cleared(const Operation& operation) {
  return is_send(operation) && operation.state == Operation::State::active && operation.shadow != nullptr;
}

}  // namespace

Shadows::Shadows(Parts& parts) : parts_(parts), job_(parts.job), outcomes_(parts.outcomes) {}

Shadows::~Shadows() = default;

Shadows::Queues& Shadows::queues(int device) {
  std::unique_ptr<Queues>& found = queues_[device];
  if (found == nullptr) found = std::make_unique<Queues>(device::Device::of(device));
  return *found;
}

// Of its copies.
device::Queue& Shadows::queue_of(const Operation& operation) {
  const Shadow& shadow = *operation.shadow;
  Queues& all = queues(shadow.device);
  const bool is_return = shadow.state == Shadow::State::delivering;
  if (shadow.is_ordered) return is_return ? all.later_to_device : all.later_to_host;
  return is_return && !shadow.is_ordering ? all.to_device : all.to_host;
}

bool Shadows::is_copied(const Operation& operation) {
  const Shadow& shadow = *operation.shadow;
  return !shadow.is_copying || queue_of(operation).has_reached(shadow.mark);
}

// False: the device hangs, or has failed.
bool Shadows::wait_for_copies(const Operation& operation) {
  const Deadline limit = Deadline::in_ms(kMostWaitMs);
  while (!is_copied(operation) || !operation.shadow->pieces.are_quiet()) {
    if (limit.passed() || queue_of(operation).fault()) return false;
    const timespec nap{0, 20'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

void Shadows::fetch(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  if (shadow.state != Shadow::State::waiting || shadow.is_copying || shadow.line != nullptr) return;
  if (operation.is_on_device() && !is_message(operation.kind) && !Entering::is_worth_offering(operation)) {
    shadow.move_to_host(operation);
    shadow.offer = {};
  }
  divide(operation);
  // What goes back in pieces goes back after earlier work of the default stream, for which the call waits here.
  if (shadow.reads.empty() && !operation.is_on_device() && (!shadow.pieces.any() || is_message(operation.kind))) {
    shadow.state = Shadow::State::running;
    if (shadow.pieces.any() || shadow.may_be_brought) note_order(shadow);
    return;
  }
  enqueue_reads(operation);
  if (!is_message(operation.kind)) waiting_.push_back(&operation);
}

bool Shadows::come_in_stream(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  const bool waits = !shadow.reads.empty() && !operation.is_on_device();
  shadow.state = waits ? Shadow::State::waiting : Shadow::State::running;
  shadow.is_ordered = true;
  shadow.is_brought = false;
  divide(operation);
  return waits;
}

void Shadows::fetch_from_stream(Operation& operation) {
  enqueue_reads(operation);
  if (!is_message(operation.kind)) waiting_.push_back(&operation);
}

// Copies that were enqueued before one that could not be are still at the block.
template <class Copies>
void Shadows::enqueue(Shadow& shadow, device::Queue& queue, Copies&& copies) {
  try {
    if (shadow.is_ordered) {
      copies();
    } else {
      shadow.is_ordering = !device::WaitingStreams::do_before_any(copies);
    }
    shadow.mark = (shadow.is_ordering ? queues(shadow.device).to_host : queue).mark();
  } catch (const Error&) {
    shadow.keep_for_ever();
    throw;
  }
  shadow.is_copying = true;
}

// Of a call that is on the device, only the mark.
void Shadows::enqueue_reads(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  device::Queue& queue = queue_of(operation);
  shadow.pieces.marks.clear();
  enqueue(shadow, queue, [&] {
    if (shadow.pieces.any()) return enqueue_pieces(operation, queue);
    for (const Shadow::Part& part : shadow.reads) {
      if (!operation.is_on_device()) queue.to_host(shadow.base + part.at, part.device, part.bytes);
    }
  });
  if (!shadow.pieces.marks.empty()) shadow.mark = shadow.pieces.marks.front();
}

void Shadows::enqueue_writes(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  device::Queue& queue = queue_of(operation);
  enqueue(shadow, queue, [&] {
    const bool is_receive = operation.kind == ANELLO_RECV;  // it has one part
    const std::size_t gone = is_receive ? shadow.pieces.gone_back * shadow.pieces.bytes : 0;
    std::size_t left = is_receive ? operation.status.count * operation.element_bytes - gone : SIZE_MAX;
    for (Shadow::Part part : shadow.writes) {
      part.device += gone;
      part.at += gone;
      const std::size_t bytes = std::min(part.bytes - gone, left);
      if (bytes > 0 && shadow.direct.from != nullptr) {
        queue.on_device(part.device, shadow.direct.from, bytes);
      } else if (bytes > 0) {
        queue.to_device(part.device, shadow.base + part.at, bytes);
      }
      left -= bytes;
    }
  });
}

void Shadows::copy_after_mark(Operation& operation) {
  try {
    operation.shadow->state == Shadow::State::delivering ? enqueue_writes(operation) : enqueue_reads(operation);
  } catch (const Error& of_device) {
    outcomes_.fail(*operation.group, job_.own_error(of_device), true);
  }
}

void Shadows::move_to_host(Operation& operation) {
  operation.shadow->move_to_host(operation);
  enqueue_reads(operation);
  waiting_.push_back(&operation);
  if (is_send(operation)) ++operation.group->sends_held_up;
}

void Shadows::fetch_early(Operation& operation) {
  if (operation.shadow->reads.empty()) {
    operation.shadow->state = Shadow::State::running;
    return;
  }
  enqueue_reads(operation);
}

bool Shadows::fetched(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  if (shadow.state != Shadow::State::waiting && !shadow.is_copying) return true;
  if (!is_copied(operation)) return false;
  shadow.is_copying = false;
  shadow.is_ordered = true;
  if (std::exchange(shadow.is_ordering, false) && !operation.is_on_device()) {
    copy_after_mark(operation);
    return false;
  }
  shadow.state = Shadow::State::running;
  shadow.pieces.look();
  if (shadow.pieces.is_fetching()) in_pieces_.push_back(&operation);
  return true;
}

// It waits no more.
void Shadows::take_out(Operation& operation) {
  if (std::erase(waiting_, &operation) > 0 && is_send(operation)) --operation.group->sends_held_up;
}

bool Shadows::holds_up(Operation& message) {
  const bool waits = message.shadow != nullptr && message.shadow->state == Shadow::State::waiting;
  if (!waits && !(is_send(message) && message.group->sends_held_up > 0)) return false;
  waiting_.push_back(&message);
  if (is_send(message)) ++message.group->sends_held_up;
  return true;
}

bool Shadows::awaits_stream(Operation& receive) {
  Shadow& shadow = *receive.shadow;
  if (shadow.is_ordered) return false;
  shadow.state = Shadow::State::waiting;
  shadow.is_copying = true;
  shadow.mark = shadow.pieces.order_mark;
  if (fetched(receive)) return false;
  waiting_.push_back(&receive);
  return true;
}

bool Shadows::deliver(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  if (shadow.writes.empty() || operation.is_on_device() || shadow.is_brought) return false;
  const bool is_back = shadow.pieces.go_back;
  if (is_back && shadow.pieces.returns == nullptr) return false;
  shadow.state = Shadow::State::delivering;
  if (is_back) {
    shadow.mark = shadow.pieces.last_return;
    shadow.is_copying = true;
  } else {
    enqueue_writes(operation);
  }
  delivering_.push_back(&operation);
  return true;
}

void Shadows::abandon(Operation& operation) {
  take_out(operation);
  std::erase(delivering_, &operation);
  std::erase(in_pieces_, &operation);
  const bool none_is_left = operation.shadow->is_ordering || wait_for_copies(operation);
  none_is_left ? operation.shadow->own.retire(false) : operation.shadow->keep_for_ever();
  operation.shadow->direct = {};
}

void Shadows::end_all(Group& group, const Error& error) {
  const auto of_group = [&](const Operation* each) { return each->group == &group; };
  // Collectives that wait are in the window, and end with it.
  for (std::size_t i = 0; i < waiting_.size();) {
    Operation& each = *waiting_[i];
    if (of_group(&each) && is_message(each.kind)) {
      take_out(each);
      outcomes_.finish(each, error);
    } else {
      ++i;
    }
  }
  while (true) {
    const auto found = std::find_if(delivering_.begin(), delivering_.end(), of_group);
    if (found == delivering_.end()) return;
    Operation& each = **found;
    const bool is_whole = each.shadow->direct.from == nullptr;  // else its sender may have changed it
    const bool is_delivered = !each.shadow->is_ordering && wait_for_copies(each) && is_whole;
    std::erase(delivering_, &each);
    outcomes_.delivered(each, is_delivered ? Error() : error);
  }
}

bool Shadows::move() {
  if (is_idle()) return false;
  bool moved = begin_ready();
  moved |= go_on_with_pieces();
  moved |= end_delivered();
  constexpr unsigned kPollsPerLook = 1024;
  if (!moved && ++polls_ % kPollsPerLook == 0) find_faults();
  return moved;
}

bool Shadows::begin_ready() {
  bool moved = false;
  for (std::size_t i = 0; i < waiting_.size();) {
    Operation& each = *waiting_[i];
    const bool is_behind =
        is_send(each) && !is_cleared(each) &&
        std::any_of(waiting_.begin(), waiting_.begin() + std::ptrdiff_t(i), [&](const Operation* earlier) {
          return earlier->group == each.group && is_send(*earlier) && !is_cleared(*earlier);
        });
    if (is_behind || (each.shadow != nullptr && !fetched(each))) {
      if (each.group->error) return true;  // that has changed the list
      ++i;
      continue;
    }
    take_out(each);
    if (is_cleared(each)) {
      parts_.messages.data_came(each);
    } else if (each.kind == ANELLO_RECV) {
      parts_.messages.stream_came(each);
    } else {
      each.state == Operation::State::entering ? parts_.entering.data_came(each) : outcomes_.may_start(each);
    }
    moved = true;
  }
  return moved;
}

bool Shadows::end_delivered() {
  bool moved = false;
  for (std::size_t i = 0; i < delivering_.size();) {
    Operation& each = *delivering_[i];
    if (!is_copied(each)) {
      ++i;
      continue;
    }
    moved = true;
    Shadow& shadow = *each.shadow;
    shadow.is_ordered = true;
    if (std::exchange(shadow.is_ordering, false)) {
      copy_after_mark(each);
      if (each.group->error) return true;  // that has changed the list
      continue;
    }
    if (shadow.direct.from != nullptr) {
      if (!parts_.messages.has_got_from_device(each)) {
        ++i;  // its group hears of the failure, and ends it
        continue;
      }
      shadow.direct = {};
    }
    delivering_.erase(delivering_.begin() + std::ptrdiff_t(i));
    outcomes_.delivered(each, {});
  }
  return moved;
}

// A device that has failed reaches no mark any more.
void Shadows::find_faults() {
  for (const std::vector<Operation*>* list : {&waiting_, &in_pieces_, &delivering_}) {
    for (Operation* const each : *list) {
      if (each->shadow == nullptr) continue;  // a send of the host that waits for its turn
      const Error fault = queue_of(*each).fault();
      if (!fault) continue;
      return outcomes_.fail(*each->group, job_.own_error(fault), true);  // it changes the lists
    }
  }
}

}  // namespace anello::executor
