#pragma once
// Finds ranks that are silent although their connections stay open: a link is down, a host is frozen, or a process is
// stopped. Two ranks of each host send beats to the lowest rank at a steady pace, over the control links. It answers,
// and each side measures how long the other host has been silent. Silence counts only while this service thread itself
// ran on time: a rank that was stopped accuses no other. Within a host, ranks check each other's processes
// (process_watch.h), and silence never counts as death. Service thread only, except life().
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

  // Call it before start. 0: no rank is monitored.
  void set_limit(std::int64_t ms) { limit_ms_ = ms; }
  std::int64_t limit_ms() const { return limit_ms_; }
  // Call it once all ranks are known.
  void start();
  // A frame has arrived on the control link of that rank.
  void heard(int from);
  // The frame was a beat, which may want an answer.
  void beat(int from, Reader& reader);
  // Reports on ranks by a rank that observes or monitors them.
  void told(Reader& reader);
  // This rank itself has observed it and tells all ranks.
  void found(const std::vector<int>& ranks, Life life);

  // The state that is known now. Any thread.
  Life life(int rank) const { return lives_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed); }
  // The state after checking its process if it is on this host. Any thread, once all ranks are known.
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
  void check_silence(Host& host, std::int64_t now, const std::vector<int>& of);
  void give_up(const std::vector<int>& ranks, std::int64_t silent_ms, bool answers);
  void ask(int rank);
  // After this time without an answer, beats to the lowest rank become more frequent.
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
