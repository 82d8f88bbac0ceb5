#pragma once
// What the lane from a peer tells of it.
#include <cstdint>

namespace anello::health {

class PeerLane {
 public:
  PeerLane() = default;
  virtual ~PeerLane() = default;
  PeerLane(const PeerLane&) = delete;
  PeerLane& operator=(const PeerLane&) = delete;

  virtual bool is_open() const = 0;
  // It was open, and nothing more comes over it.
  virtual bool is_broken() const = 0;
  virtual std::int64_t broken_since_ns() const = 0;
  // Where it is a socket, what was sent may still be on its way; in shared memory all of it is there.
  virtual bool is_socket() const = 0;
  // Something has come that has not been taken.
  virtual bool has_arrivals() = 0;
  // Changes with whatever comes.
  virtual std::uint64_t came() const = 0;
  // Nothing more comes over it.
  virtual void break_off() = 0;
};

}  // namespace anello::health
