#pragma once
// One rank's membership in a job, as its context sees it: who the others are, the memory shared on this host, lanes on
// request, and news. Made by bootstrap::join, on the caller's thread; from then on the process's service thread works
// for it. Data goes down by call; what happened comes back as events that the context takes when `news` is set:
// nothing here calls up. All functions may be called from any thread.
#include "base/error.h"
#include "base/unique_fd.h"
#include "control/ledger.h"
#include "control/processors.h"
#include "memory/arena.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anello::control {

// A table of measured choices, as rank 0 found it. What it says is not control's business.
struct TuningFile {
  static constexpr std::size_t kMostBytes = 32 * 1024;
  std::string path;  // empty: there is none
  std::string text;
  std::string machine;  // that rank 0 runs on
  std::string problem;  // why it cannot be read
};

// A day. Less than the first makes a busy host a lost one.
inline constexpr std::int64_t kLeastSilenceMs = 100, kMostSilenceMs = 86'400'000;

// Settings that must be equal on all ranks: rank 0's are used by all.
struct Shared {
  std::string algorithm;
  std::int64_t chunk_bytes = 0;
  std::int64_t first_sequence = 0;
  std::int64_t silence_ms = 0;  // of another host, after which its ranks are lost; 0: for ever
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
  std::uint32_t transport() const { return transports & (~transports + 1); }
};

// Ranks that a communicator waits for, as numbered in it.
struct Absent {
  std::vector<int> not_come;  // to the operation, by their own account
  std::vector<int> silent;    // that have not answered, or not yet
};

// As far as is known of a rank that has not left and is not lost.
enum class Life : std::uint8_t {
  heard,    // or not listened for
  silent,   // its host says nothing
  stopped,  // by a signal or a debugger
};

struct Event {
  enum class Kind {
    lane,    // fd is the connected, authenticated, nonblocking socket to peer (it asked, or this rank did)
    lost,    // peer is dead or unreachable; error says how it is known
    left,    // peer's job object is gone, orderly: nothing more will be sent by it than it already has
    failed,  // communicator has failed on some rank; error is the cause, for all of its ranks
    region,  // fd is of the memory of peer that was asked for, or there is none and error says why
  };
  Kind kind = Kind::lost;
  int peer = -1;  // world rank
  std::uint64_t communicator = 0;
  std::uint64_t region = 0;
  bool found_here = false;   // lost: this rank could not reach it, which nobody else knows; it may come by itself yet
  bool for_certain = false;  // lost: nothing that it sent is on its way any more, or will be waited for
  UniqueFd fd;
  Error error;
};

class Job {
 public:
  virtual ~Job() = default;  // leaves: says goodbye on all links, within a bounded time

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Shared& shared() const = 0;
  // size() entries by rank; unchanged after creation.
  virtual const std::vector<Member>& members() const = 0;
  // Empty when this rank shares memory with nobody.
  virtual const memory::Arena& arena() const = 0;
  // The eventfd that others write to wake this rank; also written when news is set.
  virtual int wake_descriptor() const = 0;

  // Set with news waiting. take_events clears it.
  std::atomic<bool> news{false};
  virtual std::vector<Event> take_events() = 0;

  // Asks for a connected socket to peer; answered by Event::lane, or Event::lost after the job's deadline. A second
  // request for the same peer before the answer does nothing. Both ends get exactly one lane, whoever asked.
  virtual void request_lane(int peer) = 0;

  // Asks for the memory behind a region that a rank of this host has made (memory/region.h); answered by
  // Event::region within 10 s. Returns at once.
  virtual void request_region(int peer, std::uint64_t region) = 0;
  // Whether the rank's process has ended, as far as can be seen at once.
  virtual bool process_ended(int rank) const { return false; }
  // Whether it runs, by what has been heard, which costs nothing, or after a look at it, where it is of this host.
  enum class Look { by_ear, closely };
  virtual Life life(int rank, Look look) const { return Life::heard; }

  // Makes a communicator known under its id: ranks[i] is the world rank of its rank i. Its ledger is read by the
  // service thread when others ask. Until remove_communicator returns the ledger must live.
  virtual void add_communicator(std::uint64_t id, std::vector<int> ranks, const Ledger* ledger) = 0;
  virtual void remove_communicator(std::uint64_t id) = 0;
  // Asks every rank of the communicator for its record of operation `sequence`. If two disagree, each rank gets
  // Event::failed with ANELLO_ERR_MISMATCH, whose text names both calls and the ranks that made them. A rank that has
  // not come to it yet says nothing; one that has destroyed the communicator before coming to it makes it a failure
  // (ANELLO_ERR_PEER_LOST, "left"). differs: a rank of the communicator (as numbered in it) that is known to have made
  // another call there or before, perhaps so long ago that it has forgotten which; -1: none. Returns at once.
  virtual void compare_calls(std::uint64_t id, std::uint32_t sequence, int differs = -1) = 0;
  // The same, unless another rank has just asked: one question finds out for all.
  virtual void look_at_calls(std::uint64_t id, std::uint32_t sequence) { compare_calls(id, sequence); }
  // What the others answered when `sequence` was last compared. Empty when it has not been.
  virtual Absent absent(std::uint64_t id, std::uint32_t sequence) { return {}; }
  // Tells all ranks of the communicator that it has failed (Event::failed for each but this one). Returns at once.
  virtual void fail_communicator(std::uint64_t id, const Error& cause) = 0;
  // Until that is on its way, whatever becomes of this process: before a caller learns of an error, upon which it may
  // exit. Within a bounded time. Not on the service thread, and not with a lock that it takes.
  virtual void finish_telling() {}

  // Calls readable once, on the service thread, when the descriptor has something to read; to be asked for again after
  // that. One descriptor at a time. unwatch: readable neither runs nor will run once it has returned.
  virtual void watch(int descriptor, std::function<void()> readable) = 0;
  virtual void unwatch() = 0;

  // What people call a rank in messages: "rank 2 (host alpha, pid 4711)".
  std::string describe(int rank) const;
};

}  // namespace anello::control
