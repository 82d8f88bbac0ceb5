#pragma once
// What a driver moves, and what a thread waits for. All of it is called with the rank's lock held.
#include <cstddef>
#include <cstdint>

namespace anello::progress {

// A rank's operations and all that can move them.
class Driven {
 public:
  Driven() = default;
  virtual ~Driven() = default;
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;

  // A thread begins to drive.
  virtual void begin_driving() = 0;
  // Moves everything once. True: something moved.
  virtual bool move() = 0;
  // Whether anything is under way that comes to its end only if somebody looks.
  virtual bool is_busy() = 0;

  // Tells peers that this rank is about to sleep.
  virtual void about_to_sleep() = 0;
  // Each source asks for what would wake this rank, as things stand now. True: something is there already.
  virtual bool arm() = 0;
  // Deadlines are looked at after so long at the latest.
  virtual int longest_sleep_ms() const = 0;

  // How many sockets a look asks.
  virtual int sockets() const = 0;
  // Whether ranks that run on other processors are all that it waits for; and whether it waits for one alone, of which
  // it is the lower.
  virtual bool waits_elsewhere() const = 0;
  virtual bool is_first_of_two() const = 0;
  // Where sockets alone are waited for: what is still to come of the frame that has the most of it. Else 0.
  virtual std::size_t rest_of_frames() const = 0;
  // Bytes of payload that have come so far.
  virtual std::uint64_t received_bytes() const = 0;
};

// What one thread waits for.
class Wait {
 public:
  Wait() = default;
  virtual ~Wait() = default;
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  virtual bool is_over() const = 0;
  // Looks at the clock, and at the deadlines.
  virtual void tick() = 0;
};

}  // namespace anello::progress
