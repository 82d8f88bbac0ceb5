#include "executor/pieces.h"

#include "base/kind.h"
#include "device/queue.h"
#include "executor/group.h"
#include "executor/operation.h"

#include <algorithm>

namespace anello::executor {
namespace {

using schedule::Slice, schedule::Step;

// Smaller copies do not reach the link's rate, and more pieces save no more time.
constexpr std::size_t kLeastPiece = std::size_t{1} << 20;
constexpr std::size_t kMostPieces = 32;
constexpr std::size_t kLeastPieces = 4;  // else there is little to overlap

// Peers reach no memory of such a call: its steps, or its frames, alone decide what is needed when.
bool only_sends_messages(const Operation& operation) {
  const Group& group = *operation.group;
  if (operation.kind == ANELLO_RECV) return !group.board;
  if (operation.kind == ANELLO_SEND) {
    const bool has_lane = operation.peer >= 0 && operation.peer != group.rank;
    return has_lane && !group.board && operation.group->flows.to(operation.peer).far == nullptr;
  }
  if (is_message(operation.kind) || operation.announces() || operation.plan == nullptr) return false;
  const schedule::Schedule& schedule = operation.plan->schedule;
  return !schedule.lanes.empty() && schedule.staging == 0 && !schedule.peers_inputs && !schedule.peers_outputs;
}

// Visits a step's slices of this rank's memory.
template <class Visit>
void each_slice(const Step& step, Visit&& visit) {
  if (schedule::has_from(step.kind)) visit(step.from);
  if (schedule::has_into(step.kind)) visit(step.into);
}

// By piece, whether something in it has to be fetched.
std::vector<bool> to_fetch(const Shadow& shadow, std::size_t bytes, std::size_t count) {
  std::vector<bool> needed(count, false);
  for (const Shadow::Part& part : shadow.reads) {
    if (part.bytes == 0) continue;
    for (std::size_t piece = part.at / bytes; piece <= (part.at + part.bytes - 1) / bytes; ++piece)
      needed[piece] = true;
  }
  return needed;
}

}  // namespace

bool Pieces::look() {
  const std::size_t before = here;
  while (here < marks.size() && fetches->has_reached(marks[here])) ++here;
  return here > before;
}

bool Pieces::are_quiet() const {
  return (marks.empty() || fetches->has_reached(marks.back())) &&
         (returns == nullptr || returns->has_reached(last_return));
}

PieceRange pieces_of(Operation& operation, const Slice& slice) {
  using schedule::Buffer;
  const Shadow& shadow = *operation.shadow;
  if (slice.count == 0 || (slice.buffer != Buffer::input && slice.buffer != Buffer::output)) return {};
  const auto at = std::size_t(operation.at(slice) - shadow.base);  // an address below it becomes a huge number
  if (at >= shadow.bytes) return {};
  const std::size_t last = at + slice.count * operation.element_bytes - 1;
  return {std::uint32_t(at / shadow.pieces.bytes), std::uint32_t(last / shadow.pieces.bytes + 1)};
}

namespace {

// Which piece the steps need when, and which steps store into it.
void follow_steps(Operation& operation, std::size_t count) {
  Pieces& pieces = operation.shadow->pieces;
  const std::vector<bool> needed = to_fetch(*operation.shadow, pieces.bytes, count);
  pieces.stores.assign(count, 0);
  std::vector<std::uint32_t> turn_of(count, 0);  // from 1 on
  const std::vector<Step>& steps = operation.plan->schedule.steps;
  for (std::uint32_t index = 0; index < steps.size(); ++index) {
    const Step& step = steps[index];
    std::uint32_t until = 0;
    each_slice(step, [&](const Slice& slice) {
      const PieceRange range = pieces_of(operation, slice);
      for (std::uint32_t piece = range.begin; piece < range.end; ++piece) {
        if (!needed[piece]) continue;
        if (turn_of[piece] == 0) {
          pieces.order.push_back(piece);
          turn_of[piece] = std::uint32_t(pieces.order.size());
        }
        until = std::max(until, turn_of[piece]);
      }
    });
    if (until > 1) pieces.held.push_back({until, index});  // the operation begins when the first has come
    if (!schedule::has_into(step.kind)) continue;
    const PieceRange range = pieces_of(operation, step.into);
    for (std::uint32_t piece = range.begin; piece < range.end; ++piece) ++pieces.stores[piece];
  }
  std::stable_sort(pieces.held.begin(), pieces.held.end(),
                   [](const Pieces::Held& a, const Pieces::Held& b) { return a.until < b.until; });
  pieces.go_back = true;
}

}  // namespace

void divide(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  Pieces& pieces = shadow.pieces;
  pieces.bytes = 0;
  pieces.marks.clear();
  pieces.here = pieces.released = 0;
  pieces.returns = nullptr;
  pieces.gone_back = 0;
  pieces.go_back = false;
  if (shadow.way != Shadow::Way::host || shadow.bytes < kLeastPieces * kLeastPiece || !only_sends_messages(operation))
    return;
  constexpr std::size_t kPage = 4096;
  const std::size_t wanted = (shadow.bytes / kMostPieces + kPage) / kPage * kPage;
  pieces.bytes = std::max(kLeastPiece, wanted);
  const std::size_t count = (shadow.bytes + pieces.bytes - 1) / pieces.bytes;
  pieces.order.clear();
  pieces.held.clear();
  if (!is_message(operation.kind)) return follow_steps(operation, count);
  for (std::uint32_t piece = 0; operation.kind == ANELLO_SEND && piece < count; ++piece) pieces.order.push_back(piece);
}

std::size_t bytes_here(const Operation& send) {
  if (send.shadow == nullptr || !send.shadow->pieces.is_fetching()) return send.bytes;
  return send.shadow->pieces.here * send.shadow->pieces.bytes;
}

void hold_steps(Operation& operation) {
  Pieces& pieces = operation.shadow->pieces;
  if (!pieces.any()) return;
  while (pieces.released < pieces.held.size() && pieces.held[pieces.released].until <= pieces.here) ++pieces.released;
  for (std::size_t i = pieces.released; i < pieces.held.size(); ++i) ++operation.run.waits[pieces.held[i].step];
}

}  // namespace anello::executor
