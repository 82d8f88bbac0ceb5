#pragma once
// What a rank tells of its calls when somebody asks, and what the answers of several ranks come to. Pure.
#include "base/error.h"
#include "control/ledger.h"
#include "control/wire.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace anello::control {

struct CallHistory {
  std::vector<CallRecord> records;      // up to the sequence asked for, oldest first, at most Ledger::kCompared
  std::optional<std::uint32_t> newest;  // empty: no call yet
  bool destroyed = false;               // the communicator is gone on that rank
};

// Sequences wrap: a comes before b.
inline bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

CallHistory history_of(const Ledger& ledger, std::uint32_t sequence);
// The same of one that is kept after its ledger is gone.
CallHistory cut_after(const CallHistory& whole, std::uint32_t sequence);

void put_history(Writer& writer, const CallHistory& history);
CallHistory take_history(Reader& reader);

// Two ranks in the communicator of which is known that one made other calls than the other up to an operation:
// something of the one's came to the other.
struct Differing {
  int one = -1;
  int other = -1;
};

// By rank in the communicator. Empty while nothing speaks for a disagreement about operation `sequence` or one before.
// Otherwise the error that all ranks get; its peer is a rank in the communicator. What is known of two counts where one
// of them has gone on so far that it no longer knows its call, and both answer: of one that does not there may be worse
// to hear.
std::optional<Error> judge(const std::map<int, CallHistory>& histories, std::uint32_t sequence,
                           const std::optional<Differing>& known = std::nullopt);

}  // namespace anello::control
