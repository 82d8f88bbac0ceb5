#pragma once
// A section's contents at one moment, as plain values.
#include "recorder/section.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace anello::recorder {

struct Snapshot {
  // The most operations of each of the three lists.
  static constexpr std::uint64_t kOperations = 64;

  // Times are in milliseconds since 1970, of this host's clock; 0: not known.
  struct Times {
    std::int64_t seen_ms = 0;  // when a thread that waited first looked at the clock
    std::int64_t ended_ms = 0;
  };
  struct Collective {
    CallRecord call;
    bool ended = false;
    anello_result_t result = ANELLO_OK;  // if it has ended
    Times times;
  };
  struct Message {
    std::uint64_t number = 0;
    MessageRecord message;
    bool ended = false;
    anello_result_t result = ANELLO_OK;
    Times times;
  };
  struct Error {
    anello_result_t code = ANELLO_OK;
    int peer = -1;  // world rank
    std::int64_t at_ms = 0;
    std::string text;
  };

  Identity who;
  std::string version;  // of the library
  std::int64_t taken_ms = 0;
  std::vector<Collective> collectives;  // oldest first, as are the others
  std::vector<Message> sent;
  std::vector<Message> received;
  std::map<std::string, Total> totals;  // by kind; messages, too
  std::optional<Waits> waits;           // of a collective in flight
  std::optional<Error> error;

  // The collective with that sequence; null: it is not among these.
  const Collective* find(std::uint32_t sequence) const;
  // The oldest in flight; null: none.
  const Collective* in_flight() const;
};

Snapshot snapshot_of(const Section& section);

}  // namespace anello::recorder
