#pragma once
// Tries to reach another host at each of its offered places, all at the same time. So a firewall or an address that
// leads nowhere is named before any rank starts. Nothing here blocks.
#include "anellorun/descriptor.h"
#include "anellorun/host.h"
#include "anellorun/job.h"

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

namespace anellorun {

// What became of a place.
struct Reach {
  int error = 0;  // an error number; 0: the place answers with the nonce; EADDRINUSE: with something else
  std::uint32_t microseconds = 0;   // until it answered, or until the error
  std::int64_t clock_ahead_us = 0;  // its host's clock less this one's, give or take as long as it took to answer
};

class Probe {
 public:
  // Throws WrongFrame if the nonce is none.
  Probe(std::string nonce, const std::vector<MeetingPlace>& places, Clock::duration time);

  void watch(std::vector<pollfd>& into);
  // entries: those that watch() has appended.
  void take(const pollfd* entries);
  Clock::time_point deadline() const { return end_; }
  bool done(Clock::time_point now) const;
  // One for each place; ETIMEDOUT for those that have not answered.
  const std::vector<Reach>& reached() const { return reached_; }

 private:
  struct Attempt {
    Descriptor socket;  // closed when it is known
    std::string got;
  };
  void read(std::size_t i);
  void settle(std::size_t i, int error);

  const std::string nonce_;
  const Clock::time_point begin_;
  Clock::time_point end_;
  std::vector<Attempt> attempts_;
  std::vector<Reach> reached_;
};

}  // namespace anellorun
