#pragma once
// One of the things that move a rank's operations: its lanes, its boards, its engine, its gets. All functions are
// called with the rank's lock held.

namespace anello::progress {

class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Polls once. True: something moved.
  virtual bool move() = 0;
  // Requests the event that would wake this rank. True: it is there already. A source whose events have no descriptor
  // bounds the sleep instead.
  virtual bool arm() { return false; }
  virtual int longest_sleep_ms() const { return kAsLongAsOthers; }
  // The same for a rank that no thread waits for. Less than a moment: it is worth to poll meanwhile.
  virtual long poll_again_ns() const { return kNotByTime; }
  // Called before the rank sleeps, so that peers know to wake it.
  virtual void about_to_sleep() {}

  static constexpr long kNotByTime = 50'000'000;
  static constexpr int kAsLongAsOthers = 200;  // deadlines are checked at the latest after this time
};

}  // namespace anello::progress
