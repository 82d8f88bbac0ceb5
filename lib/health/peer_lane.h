#pragma once
// The information that the lane from a peer gives.
#include <cstdint>
#include <string>

namespace anello::health {

class PeerLane {
 public:
  PeerLane() = default;
  virtual ~PeerLane() = default;
  PeerLane(const PeerLane&) = delete;
  PeerLane& operator=(const PeerLane&) = delete;

  virtual bool is_open() const = 0;
  // It was open, and no more data will arrive over it.
  virtual bool is_broken() const = 0;
  virtual std::int64_t broken_since_ns() const = 0;
  // What broke it, if its peer has not closed it; empty: it has.
  virtual std::string trouble() const = 0;
  // Whether it is a socket, in which sent data may still be in flight; in shared memory all of it has arrived.
  virtual bool is_socket() const = 0;
  // Data has arrived that has not been read.
  virtual bool has_arrivals() = 0;
  // Changes whenever data arrives.
  virtual std::uint64_t came() const = 0;
  // No more data will arrive over it.
  virtual void break_off() = 0;
};

}  // namespace anello::health
