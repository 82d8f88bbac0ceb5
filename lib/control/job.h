#pragma once
// One rank's membership in a job, as its context sees it: the other ranks, the memory shared on this host, lanes on
// request, and news. bootstrap::join makes it on the caller's thread; from then on the process's service thread works
// for it. The context calls it, and events come back, which the context takes when `news` is set: nothing here calls
// the context. Any thread may call any function.
#include "base/error.h"
#include "base/unique_fd.h"
#include "control/processors.h"
#include "memory/arena.h"
#include "memory/pool.h"
#include "recorder/recorder.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anello::control {

// A table of measured choices, as rank 0 found it. Control does not interpret it.
struct TuningFile {
  static constexpr std::size_t kMostBytes = 32 * 1024;
  std::string path;  // empty: there is none
  std::string text;
  std::string machine;  // the machine on which rank 0 runs
  std::string problem;  // why it cannot be read
};

// A day. With less than the first value, a busy host would count as lost.
inline constexpr std::int64_t kLeastSilenceMs = 100, kMostSilenceMs = 86'400'000;

// Settings that must be equal on all ranks: all use those of rank 0.
struct Shared {
  std::string algorithm;
  std::int64_t chunk_bytes = 0;
  std::int64_t first_sequence = 0;
  std::int64_t silence_ms = 0;  // the silence of another host after which its ranks are lost; 0: no limit
  bool invariant = false;
  TuningFile tuning;
};

struct Member {
  int rank = -1;
  std::string host;           // for people
  std::int64_t pid = 0;       // as its own process sees it
  std::uint64_t process = 0;  // equal for ranks of one process
  std::uint64_t machine = 0;  // equal for ranks that share an arena; random for one that shares none
  int local_index = -1;       // in the arena of its machine; -1: none
  Processors processors;      // it may run on
  // Those that join this rank and it (transports/registry.h); 0 for itself. The best one has their lane.
  std::uint32_t transports = 0;
  // What its transports have given out, by their place in the registry; shorter where the last ones have nothing.
  std::vector<std::string> addresses = {};

  std::uint32_t transport() const { return transports & (~transports + 1); }
};

// Ranks for which a communicator waits, as numbered in it.
struct Absent {
  std::vector<int> not_come;  // have not reached the operation, according to their own answers
  std::vector<int> silent;    // that have not answered, or not yet
};

// The known state of a rank that has not left and is not lost.
enum class Life : std::uint8_t {
  heard,    // or not monitored
  silent,   // its host is silent
  stopped,  // by a signal or a debugger
};

struct Event {
  enum class Kind {
    lane,  // rails are the connected, authenticated, nonblocking sockets to peer (it asked, or this rank did): one, or
           // one for each pair of interfaces
    lost,  // peer is dead or unreachable; error says how it is known
    left,  // peer's job object was destroyed in order: it will send nothing more
    failed,  // communicator has failed on some rank; error is the cause, for all of its ranks
    region,  // memory is the requested range of peer's, or is empty and error says why
  };
  Kind kind = Kind::lost;
  int peer = -1;  // world rank
  std::uint64_t communicator = 0;
  std::uint64_t region = 0;
  bool found_here = false;   // lost: this rank could not reach it, which no other rank knows; it may still connect by
                             // itself
  bool for_certain = false;  // lost: none of its messages is in flight any more, or will be waited for
  std::vector<UniqueFd> rails;
  memory::PassedRange memory;
  Error error;
};

class Job {
 public:
  virtual ~Job() = default;  // leaves: says goodbye on all links, in bounded time

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Shared& shared() const = 0;
  // size() entries by rank; unchanged after creation.
  virtual const std::vector<Member>& members() const = 0;
  // Empty if this rank shares memory with no other rank.
  virtual const memory::Arena& arena() const = 0;
  // The eventfd to which others write to wake this rank; it is also written when news is set.
  virtual int wake_descriptor() const = 0;

  // Set while news is waiting. take_events clears it.
  std::atomic<bool> news{false};
  virtual std::vector<Event> take_events() = 0;

  // Asks for a lane's sockets to peer; answered by Event::lane, or Event::lost after the job's deadline. A second
  // request for the same peer before the answer does nothing. Both ends get exactly one lane, whichever rank asked.
  virtual void request_lane(int peer) = 0;

  // Asks for the memory behind a region that a rank of this host has made (memory/region.h); answered by
  // Event::region within 10 s. Returns at once.
  virtual void request_region(int peer, std::uint64_t region) = 0;
  // Whether the rank's process has ended, as far as this rank can see at once.
  virtual bool process_ended(int rank) const { return false; }
  // Whether it runs: from the reports so far, which costs nothing, or after checking its process if it is on this host.
  enum class Look { by_ear, closely };
  virtual Life life(int rank, Look look) const { return Life::heard; }

  // Makes a communicator known under its id: ranks[i] is the world rank of its rank i. The service thread reads its
  // record when others ask, and writes it out when it has failed elsewhere. Until remove_communicator returns the
  // record must live.
  virtual void add_communicator(std::uint64_t id, std::vector<int> ranks, recorder::Record* record) = 0;
  virtual void remove_communicator(std::uint64_t id) = 0;
  // Asks every rank of the communicator for its record of operation `sequence`. If two disagree, each rank gets
  // Event::failed with ANELLO_ERR_MISMATCH, whose text names both calls and the ranks that made them. A rank that has
  // not reached it yet does not disagree; a rank that has destroyed the communicator before reaching it makes it a
  // failure (ANELLO_ERR_PEER_LOST, "left"). differs: a rank of the communicator (as numbered in it) that is known to
  // have made another call there or before, perhaps so long ago that it no longer knows which; -1: none. Returns at
  // once.
  virtual void compare_calls(std::uint64_t id, std::uint32_t sequence, int differs = -1) = 0;
  // Asks only if no other rank has just asked: one question serves all ranks.
  virtual void check_calls(std::uint64_t id, std::uint32_t sequence) { compare_calls(id, sequence); }
  // The others' answers when `sequence` was last compared. Empty if it was never compared.
  virtual Absent absent(std::uint64_t id, std::uint32_t sequence) { return {}; }
  // Tells all ranks of the communicator that it has failed (Event::failed for each but this one). Returns at once.
  virtual void fail_communicator(std::uint64_t id, const Error& cause) = 0;
  // Returns when this news will arrive even if this process ends: call it before a caller learns of an error, because
  // it may then exit. It returns in bounded time. Do not call it on the service thread, or with a lock that the service
  // thread takes.
  virtual void finish_telling() {}

  // Calls readable once, on the service thread, when the descriptor is readable; call watch again after that. One
  // descriptor at a time. After unwatch has returned, readable does not run and will not run.
  virtual void watch(int descriptor, std::function<void()> readable) = 0;
  virtual void unwatch() = 0;

  // A rank's name in messages for people: "rank 2 (host alpha, pid 4711)".
  std::string describe(int rank) const;
  // An error that only this rank can see, as all ranks are told of it.
  Error own_error(const Error& error) const;
};

}  // namespace anello::control
