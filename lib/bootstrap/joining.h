#pragma once
// The parts of joining that are the same whatever way leads to the meeting place.
#include "base/clock.h"
#include "bootstrap/key_space.h"
#include "bootstrap/meeting.h"
#include "control/membership.h"

#include <anello/anello.h>

#include <cstdint>
#include <memory>
#include <string>

namespace anello::bootstrap {

struct Wish {
  int rank = 0;
  int size = 1;
  std::int64_t timeout_ms = 0;
  std::int64_t silence_ms = 0;
  std::uint32_t transports = 0;
  Deadline deadline = Deadline::in_ms(0);
};

control::Shared settings_of(int rank, std::int64_t silence_ms);

// One attempt at one meeting place. Throws Error, or Unknown if the place is gone.
std::unique_ptr<control::Job> join_at(const Meeting& meeting, const Wish& wish);

// Opens the meeting place in this process. False: another process has it.
bool host(const Meeting& meeting, control::Address* tcp = nullptr);

// Whether the meeting is still open: its process answers and proves itself. Waits for at most so long.
bool is_open(const Meeting& meeting, std::int64_t limit_ms);

// The address of this host that a unique id made here should have; empty: there is none.
std::string address_for_others();

// Meetings over the caller's store, over a file (meeting_file.h), and over the launcher's key space, for all ranks that
// the launcher has started. They throw Error.
std::unique_ptr<control::Job> join_over(const anello_store_t& store, const Wish& wish);
std::unique_ptr<control::Job> join_over_file(const std::string& path, const std::string& job, const Wish& wish);
std::unique_ptr<control::Job> join_over_key_space(const KeySpaceAt& at, const Wish& wish);

}  // namespace anello::bootstrap
