#pragma once
// What a rank shows of one communicator, to its own service thread and to other processes of its user. It lies in the
// process's recorder (recorder.h). No pointer leads out of it or into it, and all of it may be read at any time.
#include "recorder/ledger.h"
#include "recorder/message_log.h"
#include "recorder/published.h"

#include <atomic>
#include <cstdint>

namespace anello::recorder {

struct Identity {
  std::uint64_t job = 0;           // equal for all ranks of a job
  std::uint64_t communicator = 0;  // equal for its ranks
  std::int64_t pid = 0;            // as the process sees it
  std::int32_t rank = -1;          // in the communicator
  std::int32_t size = 0;
  std::int32_t world_rank = -1;  // in the job
  std::int32_t world_size = 0;
  char host[64] = {};
};

// What the oldest collective in flight waits for, as its rank last looked: while a thread waits, every 20 ms.
struct Waits {
  enum class What : std::int32_t { call, data, room };  // the peer's entry, its data, or its reading of ours
  enum class Life : std::int32_t { runs, silent, stopped, lost };
  struct Peer {
    std::int32_t rank = -1;
    std::int32_t world_rank = -1;
    What what = What::call;
    Life life = Life::runs;
  };
  static constexpr int kMost = 16;
  std::uint32_t sequence = 0;
  std::int32_t peers = 0;
  std::int32_t more = 0;   // peers that are not listed
  std::int32_t steps = 0;  // of its schedule; 0: it has none yet
  std::int32_t steps_ended = 0;
  Peer peer[kMost];
};

// The communicator's error.
struct Failure {
  std::int32_t code = 0;
  std::int32_t peer = -1;  // world rank
  std::int64_t at_ns = 0;  // monotonic
  char text[1200] = {};
};

struct Section {
  explicit Section(const Identity& identity) { who.publish(identity); }

  Published<Identity> who;
  Ledger ledger;
  MessageLog sent;
  MessageLog received;
  Published<Waits> waits;
  Published<Failure> failure;
};

}  // namespace anello::recorder
