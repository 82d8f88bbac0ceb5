#pragma once
// Interfaces for the work that a driver does, and for the condition that a thread waits for. All functions are called
// with the rank's lock held.
#include <cstddef>
#include <cstdint>

namespace anello::progress {

// A rank's operations and everything that can move them.
class Driven {
 public:
  Driven() = default;
  virtual ~Driven() = default;
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;

  // A thread begins to drive.
  virtual void begin_driving() = 0;
  // Polls everything once. True: something moved.
  virtual bool move() = 0;
  // Whether an operation is in flight that only ends if a thread polls.
  virtual bool is_busy() = 0;

  // Tells peers that this rank is about to sleep.
  virtual void about_to_sleep() = 0;
  // Each source requests the events that would wake this rank in the current state. True: an event is already there.
  virtual bool arm() = 0;
  // Deadlines are checked at the latest after this time.
  virtual int longest_sleep_ms() const = 0;

  // A rank that no thread waits for is polled again after this time; while it is a moment, in between, too.
  virtual long poll_again_ns() const = 0;

  // The number of sockets that a poll asks.
  virtual int sockets() const = 0;
  // Whether it waits only for ranks on other processors, and whether it waits for a single rank and is the lower of the
  // two.
  virtual bool waits_elsewhere() const = 0;
  virtual bool is_first_of_two() const = 0;
  // If it waits only for sockets: the largest number of missing bytes of any frame. Otherwise 0.
  virtual std::size_t rest_of_frames() const = 0;
  // Bytes of payload that have arrived so far.
  virtual std::uint64_t received_bytes() const = 0;
};

// The condition that one thread waits for.
class Wait {
 public:
  Wait() = default;
  virtual ~Wait() = default;
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  virtual bool is_over() const = 0;
  // Reads the clock and checks the deadlines.
  virtual void tick() = 0;
};

}  // namespace anello::progress
