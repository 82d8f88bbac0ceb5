#pragma once
// The ranks of one host as the supervisor sees them, whether this process has started them (LocalRanks) or an agent has
// (RemoteHost). Nothing here blocks.
#include "anellorun/threads.h"

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anellorun {

using Clock = std::chrono::steady_clock;

enum Stream : int { kOutput, kErrors };
inline constexpr int kStreams = 2;

// What the ranks of a host do, in the order in which it happened there.
class Events {
 public:
  // The rank may run on these processors only.
  virtual void bound(int rank, const std::string& processors) = 0;
  // Nobody has set OMP_NUM_THREADS for this rank.
  virtual void threads(int /*rank*/, const ThreadsNote& /*note*/) {}
  virtual void output(int rank, Stream stream, std::string_view bytes) = 0;
  // The rank's process has ended; what it wrote before has been given to output(). status: as waitpid gives it.
  virtual void ended(int rank, pid_t pid, int status) = 0;
  // And so have all processes that a rank of its host has left behind.
  virtual void gone(int rank) = 0;
  // A rank of an elastic job has sent a message to the launcher.
  virtual void told(int /*rank*/, std::string_view /*message*/) {}
  // While this is true, output() is not called, and the ranks wait in write(2) as they would on a slow terminal.
  virtual bool full(Stream stream) const = 0;
  // Nobody reads the stream any more: the ranks' pipes are closed to tell them.
  virtual bool unread(Stream stream) const = 0;

 protected:
  ~Events() = default;
};

class Host {
 public:
  virtual ~Host() = default;

  // Appends the descriptors that it waits for.
  virtual void watch(std::vector<pollfd>& into) = 0;
  // Handles what is ready. entries: those that watch() has appended.
  virtual void take(const pollfd* entries) = 0;
  // When keep_deadlines() has something to do even if nothing is ready.
  virtual std::optional<Clock::time_point> deadline() const = 0;
  virtual void keep_deadlines(Clock::time_point now) = 0;
  // A child of this process has ended.
  virtual void child_ended() = 0;
  // This process has stood still for so long.
  virtual void stood_still(Clock::duration time) = 0;

  virtual void signal(int number, bool also_orphans) = 0;
  // Tells the host's ranks that a rank elsewhere is gone.
  virtual void note_gone(int rank) = 0;
  // Sends a message to a rank of an elastic job.
  virtual void tell(int rank, std::string_view message) = 0;
  // Ends what is left here: the processes that ranks have left behind and, if the launcher is gone, ranks too.
  virtual void finish() = 0;
  // Nothing of the job is left here, and all output has been given to output().
  virtual bool done() const = 0;
};

}  // namespace anellorun
