// The lines of a board, and what stands beside them, as other ranks of the host write them: whatever they like, where
// they like, this rank's own line too, between its looks.
#include "base/error.h"
#include "executor/board.h"
#include "fuzz/input.h"
#include "transports/test_arena.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace anello;
using executor::Board;
using executor::LineKind;
using executor::Round;

namespace {

constexpr int kSize = 3;

// As the other ranks have been told it.
struct Next {
  std::uint32_t number;
  std::uint64_t digest;
  std::size_t place;
};

void write_line(fuzz::Input& input, memory::BoardSlots& slots, const Next& next) {
  const bool elsewhere = input.below(8) == 0;
  const auto any_place = std::size_t(input.below(int(memory::kBoardLines)));
  memory::BoardLine& line = slots.line[elsewhere ? any_place : next.place];
  line.digest = input.below(8) == 0 ? input.take<std::uint64_t>() : next.digest;
  const std::uint16_t word = input.take<std::uint16_t>();
  line.processor.store(static_cast<std::uint8_t>(word));
  line.kind =
      word / 256 % 8 == 0 ? static_cast<std::uint8_t>(word / 2048) : static_cast<std::uint8_t>(LineKind::exchange);
  line.number.store(input.below(8) == 0 ? input.take<std::uint32_t>() : next.number);
}

void write_beside(fuzz::Input& input, const memory::Arena& arena, int rank) {
  memory::BoardSlots& slots = arena.board(0, rank);
  const std::uint64_t value = input.below(2) == 0 ? std::uint64_t(input.below(20)) : input.take<std::uint64_t>();
  switch (input.below(8)) {
    case 0: slots.touch.touching.store(value); break;
    case 1: slots.touch.stopped.store(value); break;
    case 2: slots.touch.allows_no_gets.store(value); break;
    case 3: slots.touch.failed_id.store(value); break;
    case 4: slots.touch.failed_first_hand.store(value); break;
    case 5: slots.touch.failed.store(value); break;
    case 6: slots.asleep_for.store(std::uint32_t(value)); break;
    default: arena.inbox(rank).sleeping.store(std::uint32_t(value)); break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static const testing::TestArena& memory = *new testing::TestArena(kSize);
  for (int rank = 0; rank < kSize; ++rank) {
    std::memset(static_cast<void*>(&memory.of(0).board(0, rank)), 0, sizeof(memory::BoardSlots));
    memory.of(0).inbox(rank).sleeping.store(0);
  }
  fuzz::Input input(bytes, count);
  const int me = input.below(kSize);
  const bool crowded = input.below(2) != 0;
  // Also where numbers wrap.
  const std::uint32_t first = input.below(2) == 0 ? 1 : UINT32_MAX - std::uint32_t(input.below(8));
  const memory::Arena arena = memory.of(me);
  Board board(arena, 0, {0, 1, 2}, me, first, crowded);
  std::array<std::byte, Board::capacity()> payload{};
  std::uint32_t sequence = 0;  // of the next exchange, or of the one that is published
  bool published = false;
  int needs = Board::kAll;
  const auto digest = [&] { return std::uint64_t{sequence} * 31 + 1; };
  const auto next = [&]() -> Next {
    const std::uint32_t number = first + sequence;
    return {number, digest(), crowded ? number % memory::kBoardLines : number % 64 * 2};
  };
  const auto is_peer = [&](int rank) { return rank >= 0 && rank < kSize && rank != me; };
  for (int steps = 0; !input.done() && steps < 4096; ++steps) {
    const int writer = input.below(kSize);
    if (input.below(4) == 0)
      write_beside(input, arena, writer);
    else if (writer != me || input.below(8) == 0)
      write_line(input, arena.board(0, writer), next());
    const int other = input.below(kSize);
    switch (input.below(6)) {
      case 0:
      case 1: {
        if (published) break;
        const std::size_t most = input.below(2) == 0 ? memory::kInlineBytes : Board::capacity();
        const std::size_t length = std::size_t(input.below(int(most) + 1));
        if (board.room(length) != Board::Seen::complete) break;
        const int whose = input.below(4);
        needs = whose == 0 ? Board::kNobody : whose == 1 || other == me ? Board::kAll : other;
        board.publish(LineKind::exchange, payload.data(), length, digest(), sequence, needs);
        published = true;
        break;
      }
      case 2:
      case 3: {
        if (!published || board.look(Round::exchange, digest()) != Board::Seen::complete) break;
        for (int rank = 0; rank < kSize; ++rank) {
          if (!is_peer(rank) || (needs != Board::kAll && needs != rank)) continue;
          // A call reads as much as itself says.
          const std::size_t length = std::size_t(input.below(int(Board::capacity()) + 1));
          std::memcpy(payload.data(), board.payload(rank, length), length);
        }
        board.finish();
        published = false;
        ++sequence;
        break;
      }
      case 4: {
        if (const auto disagreed = board.disagreed()) {
          if (!is_peer(disagreed->rank) || disagreed->sequence > sequence) std::abort();
          if (!board.differs(disagreed->rank)) std::abort();
        }
        board.awaits(other);
        board.awaits_elsewhere();
        board.catch_up();
        if (board.is_behind() && board.behind_at() > sequence) std::abort();
        break;
      }
      default: {
        board.about_to_sleep();
        if (board.begin_touching(sequence)) {
          board.may_touch(sequence);
          board.end_touching();
        }
        board.is_touching(other, sequence);
        board.allows_gets(other);
        if (board.failed(other, std::uint64_t(input.below(20))).code > ANELLO_ERR_INTERNAL) std::abort();
      }
    }
  }
  return 0;
}
