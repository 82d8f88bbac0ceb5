#pragma once
// A rank's answer about its calls, and the verdict on several ranks' answers. No side effects.
#include "base/error.h"
#include "recorder/ledger.h"
#include "control/wire.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace anello::control {

using recorder::CallRecord, recorder::Ledger;

struct CallHistory {
  std::vector<CallRecord> records;      // up to the requested sequence, oldest first, at most Ledger::kCompared
  std::optional<std::uint32_t> newest;  // empty: no call yet
  bool destroyed = false;               // the communicator is gone on that rank
};

// Whether a comes before b. Sequences wrap around.
inline bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

CallHistory history_of(const Ledger& ledger, std::uint32_t sequence);
// The history of a communicator whose ledger is gone.
CallHistory cut_after(const CallHistory& whole, std::uint32_t sequence);

void put_history(Writer& writer, const CallHistory& history);
CallHistory take_history(Reader& reader);

// Two ranks of the communicator that are known to have made different calls up to an operation, because one received a
// message of the other's call.
struct Differing {
  int one = -1;
  int other = -1;
};

// histories are by rank in the communicator. Returns nothing while there is no sign of a disagreement about operation
// `sequence` or an earlier one. Otherwise returns the error that all ranks get; its peer is a rank in the communicator.
// A known pair counts if one of the two has made so many calls since that it no longer knows its call, and both have
// answered: a rank that has not answered may have a more serious error to report.
std::optional<Error> judge(const std::map<int, CallHistory>& histories, std::uint32_t sequence,
                           const std::optional<Differing>& known = std::nullopt);

}  // namespace anello::control
