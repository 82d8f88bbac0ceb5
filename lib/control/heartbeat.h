#pragma once
// Finds ranks that say nothing though their connections stay open: a link that is down, a host that is frozen, a
// process that is stopped. Two ranks of each host ask the lowest rank at a steady pace, over the control links; it
// answers, and each side measures how long the other host has been silent. Silence counts only while this service
// thread ran on time itself: who was stopped accuses nobody. Within a host processes are looked at (process_watch.h),
// and no silence is a death. Service thread only, but for life().
#include "control/job.h"
#include "control/process_watch.h"
#include "control/service.h"
#include "control/wire.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anello::control {

class Agent;

class Heartbeat {
 public:
  Heartbeat(Agent& agent, int size);

  // Before start. 0: nobody is listened for.
  void set_limit(std::int64_t ms) { limit_ms_ = ms; }
  std::int64_t limit_ms() const { return limit_ms_; }
  // Once everybody is known.
  void start();
  // A frame has come on the control link of that rank.
  void heard(int from);
  // It was a beat, which may want an answer.
  void beat(int from, Reader& reader);
  // What is said of ranks by one who sees them, or listens for them.
  void told(Reader& reader);
  // By this rank itself: all are to know.
  void found(const std::vector<int>& ranks, Life life);

  // As known by now. Any thread.
  Life life(int rank) const { return lives_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed); }
  // The same, after a look at its process where it is of this host. Any thread, once everybody is known.
  Life look_at(int rank) const;

 private:
  struct Host {
    std::vector<int> ranks;
    std::int64_t heard_ns = 0;  // 0: nothing yet
    bool suspected = false;
  };
  static Task<> run(std::weak_ptr<Agent> agent);
  std::int64_t turn();  // until the next one, in ms
  void watch_parent(int parent, std::int64_t now, bool beat);
  void watch_hosts(std::int64_t now, bool beat);
  void look_at_silence(Host& host, std::int64_t now, const std::vector<int>& of);
  void give_up(const std::vector<int>& ranks, std::int64_t silent_ms, bool answers);
  void ask(int rank);
  // After so long without an answer the lowest rank is asked at a quicker pace.
  std::int64_t overdue_ns() const { return beat_ns_ + beat_ns_ / 4; }
  bool speaks() const;
  bool kernel_answers(const std::vector<int>& ranks) const;
  std::int64_t retransmission_ns(const std::vector<int>& ranks) const;
  std::vector<int> remote_here(const Host& host) const;
  Host& host_of(int rank) { return hosts_[host_of_[static_cast<std::size_t>(rank)]]; }

  Agent& agent_;
  ProcessWatch processes_;
  std::int64_t limit_ms_ = 0;
  std::int64_t beat_ns_ = 0;     // between two beats
  std::int64_t suspect_ns_ = 0;  // of silence
  std::int64_t next_turn_ns_ = 0;
  std::int64_t next_beat_ns_ = 0;
  int under_ = -1;  // the lowest rank with which silence was measured; -1: this rank does not listen
  std::vector<Host> hosts_;
  std::vector<std::size_t> host_of_;  // by rank
  std::vector<std::atomic<Life>> lives_;
};

}  // namespace anello::control
