#pragma once
// The contents of a board line. The ranks of a communicator publish lines round by round, and no line is taken for a
// line of another round.
#include <cstdint>

namespace anello::executor {

enum class Round : std::uint8_t {
  none,
  exchange,       // payloads: the call's only step
  announce,       // how each rank enters a call that may go over peers' memory
  agree,          // the parts of the announced memory that each rank could not map or read
  barrier,        // a step of a schedule
  find_staging,   // where the staging memory lies, as rank 0 found it
  share_staging,  // whether each rank has mapped the staging memory and backed its part
};

// The upper half is the round, the lower half the kind of line within it.
enum class LineKind : std::uint8_t {
  exchange = std::uint8_t(Round::exchange) << 4,
  buffers = std::uint8_t(Round::announce) << 4,  // where the buffers lie: an Announced
  keep_away,                                     // where the buffers lie, but no rank shall access them
  payload,                                       // the payload itself, since no rank can or shall read it where it lies
  staged,                                        // the first round of staging is done instead, for that reason
  sends,                                         // the call goes by messages, for that reason
  // Like these three, from a rank that has measured reading as slower and keeps to that (read_policy.h).
  payload_for_speed,
  staged_for_speed,
  sends_for_speed,
  on_device,  // where the buffers lie in a device's memory: an Announced. Unless all ranks say so, none accesses them
  agree = std::uint8_t(Round::agree) << 4,
  barrier = std::uint8_t(Round::barrier) << 4,
  find_staging = std::uint8_t(Round::find_staging) << 4,
  share_staging = std::uint8_t(Round::share_staging) << 4,
};

constexpr Round round_of(LineKind kind) { return static_cast<Round>(static_cast<std::uint8_t>(kind) >> 4); }
// The kind of line in a round that has only one.
constexpr LineKind kind_of(Round round) { return static_cast<LineKind>(static_cast<std::uint8_t>(round) << 4); }

constexpr bool is_staged(LineKind kind) { return kind == LineKind::staged || kind == LineKind::staged_for_speed; }
constexpr bool is_sends(LineKind kind) { return kind == LineKind::sends || kind == LineKind::sends_for_speed; }
constexpr bool is_payload(LineKind kind) { return kind == LineKind::payload || kind == LineKind::payload_for_speed; }
constexpr bool is_for_speed(LineKind kind) {
  return kind == LineKind::payload_for_speed || kind == LineKind::staged_for_speed || kind == LineKind::sends_for_speed;
}

}  // namespace anello::executor
