#pragma once
// What a line of the board says. The ranks of a communicator publish lines round by round, and no line is taken for one
// of another round.
#include <cstdint>

namespace anello::executor {

enum class Round : std::uint8_t {
  none,
  exchange,       // payloads: the call's only step
  announce,       // how each rank enters a call that may go over peers' memory
  agree,          // what each rank could not map or read of what was announced
  barrier,        // a step of a schedule
  find_staging,   // where the staging memory lies, as rank 0 has found it
  share_staging,  // whether each rank has mapped it and backed its part
};

// The round in the upper half, and which of its lines in the lower one.
enum class LineKind : std::uint8_t {
  exchange = std::uint8_t(Round::exchange) << 4,
  buffers = std::uint8_t(Round::announce) << 4,  // where they lie: an Announced
  keep_away,                                     // the same, and nobody shall go there
  payload,                                       // itself, since nobody can or shall read it where it lies
  staged,                                        // for the same reason the first round of staging is in its place
  sends,                                         // for the same reason the call goes by messages
  // The same by a rank that has measured that reading is slower, and keeps to it (read_policy.h).
  payload_for_speed,
  staged_for_speed,
  sends_for_speed,
  agree = std::uint8_t(Round::agree) << 4,
  barrier = std::uint8_t(Round::barrier) << 4,
  find_staging = std::uint8_t(Round::find_staging) << 4,
  share_staging = std::uint8_t(Round::share_staging) << 4,
};

constexpr Round round_of(LineKind kind) { return static_cast<Round>(static_cast<std::uint8_t>(kind) >> 4); }
// Of the rounds with one kind of line, that kind.
constexpr LineKind kind_of(Round round) { return static_cast<LineKind>(static_cast<std::uint8_t>(round) << 4); }

constexpr bool is_staged(LineKind kind) { return kind == LineKind::staged || kind == LineKind::staged_for_speed; }
constexpr bool is_sends(LineKind kind) { return kind == LineKind::sends || kind == LineKind::sends_for_speed; }
constexpr bool is_payload(LineKind kind) { return kind == LineKind::payload || kind == LineKind::payload_for_speed; }
constexpr bool is_for_speed(LineKind kind) {
  return kind == LineKind::payload_for_speed || kind == LineKind::staged_for_speed || kind == LineKind::sends_for_speed;
}

}  // namespace anello::executor
