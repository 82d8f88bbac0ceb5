// Shadows: copies in pieces (pieces.h), which overlap with the steps and frames of their calls.
#include "base/kind.h"
#include "executor/messages.h"
#include "executor/outcomes.h"
#include "executor/run.h"
#include "executor/shadows.h"

#include <algorithm>
#include <cstddef>

namespace anello::executor {
namespace {

// Visits what lies in the piece of some parts of the call's memory.
template <class Visit>
void each_part_in(const std::vector<Shadow::Part>& parts, const Pieces& pieces, std::uint32_t piece, Visit&& visit) {
  const std::size_t begin = piece * pieces.bytes, end = begin + pieces.bytes;
  for (const Shadow::Part& part : parts) {
    const std::size_t first = std::max(begin, part.at), last = std::min(end, part.at + part.bytes);
    if (first < last) visit(Shadow::Part{part.device + (first - part.at), first, last - first});
  }
}

}  // namespace

void Shadows::enqueue_pieces(Operation& operation, device::Queue& queue) {
  Shadow& shadow = *operation.shadow;
  Pieces& pieces = shadow.pieces;
  pieces.fetches = &queue;
  for (const std::uint32_t piece : pieces.order) {
    each_part_in(shadow.reads, pieces, piece,
                 [&](const Shadow::Part& part) { queue.to_host(shadow.base + part.at, part.device, part.bytes); });
    pieces.marks.push_back(queue.mark());
  }
}

// A receive does not wait for earlier work of the default stream; only what it gives back does.
void Shadows::note_order(Shadow& shadow) {
  Pieces& pieces = shadow.pieces;
  pieces.fetches = &queues(shadow.device).to_host;
  pieces.order_mark = pieces.fetches->mark();
}

void Shadows::give_back_received(Operation& receive) {
  Shadow& shadow = *receive.shadow;
  Pieces& pieces = shadow.pieces;
  if (!pieces.any()) return;
  if (!shadow.is_ordered && !pieces.fetches->has_reached(pieces.order_mark)) return;
  shadow.is_ordered = true;
  device::Queue& queue = queues(shadow.device).later_to_device;
  const std::uint32_t before = pieces.gone_back;
  try {
    while ((pieces.gone_back + std::size_t{1}) * pieces.bytes <= receive.moved) {
      each_part_in(shadow.writes, pieces, pieces.gone_back,
                   [&](const Shadow::Part& part) { queue.to_device(part.device, shadow.base + part.at, part.bytes); });
      ++pieces.gone_back;
    }
    if (pieces.gone_back == before) return;
    pieces.returns = &queue;
    pieces.last_return = queue.mark();
  } catch (const Error&) {
    shadow.keep_for_ever();
  }
}

void Shadows::give_back(Operation& operation, std::uint32_t step) {
  Shadow& shadow = *operation.shadow;
  Pieces& pieces = shadow.pieces;
  const schedule::Step& done = operation.plan->schedule.steps[step];
  if (!pieces.any() || !schedule::has_into(done.kind)) return;
  const PieceRange range = pieces_of(operation, done.into);
  device::Queue& queue = queues(shadow.device).later_to_device;
  try {
    for (std::uint32_t piece = range.begin; piece < range.end; ++piece) {
      if (--pieces.stores[piece] > 0) continue;
      each_part_in(shadow.writes, pieces, piece, [&](const Shadow::Part& part) {
        queue.to_device(part.device, shadow.base + part.at, part.bytes);
        pieces.returns = &queue;
      });
      if (pieces.returns != nullptr) pieces.last_return = queue.mark();
    }
  } catch (const Error&) {
    shadow.keep_for_ever();
    pieces.go_back = false;
  }
}

bool Shadows::go_on_with_pieces() {
  bool moved = false;
  for (std::size_t i = 0; i < in_pieces_.size();) {
    Operation& each = *in_pieces_[i];
    Pieces& pieces = each.shadow->pieces;
    const bool came = pieces.look();
    if (!pieces.is_fetching()) in_pieces_.erase(in_pieces_.begin() + std::ptrdiff_t(i));
    if (came) {
      moved = true;
      const Group& group = *each.group;
      outcomes_.with_memory(*each.group, [&] {
        if (each.state != Operation::State::active) return;
        is_message(each.kind) ? parts_.messages.pieces_came(each) : pieces_came(each);
      });
      if (group.error) return true;  // that has changed the list
    }
    if (i < in_pieces_.size() && in_pieces_[i] == &each) ++i;
  }
  return moved;
}

}  // namespace anello::executor
