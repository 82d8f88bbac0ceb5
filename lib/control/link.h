#pragma once
// Frames over a stream: reads one at a time and sends without waiting. Sent frames are queued up to a bound; the link
// of a peer that does not read is ended.
//
// Each frame carries a code (HMAC-SHA256, 128 bits) under the connection's own key over its number, head and body: a
// frame that is changed, repeated, omitted or inserted in transit ends the link. The head also has a checksum, so that
// the receiver does not wait for a wrong length.
#include "control/stream.h"
#include "control/wire.h"

#include <memory>

namespace anello::control {

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Service& service, std::shared_ptr<Stream> stream) : service_(service), stream_(std::move(stream)) {}

  Task<Frame> receive();  // throws Error
  void send(const Frame& frame);
  // Waits until the kernel has taken all queued frames, the link has failed, or ms have passed.
  static Task<> flushed(std::shared_ptr<Link> self, std::int64_t ms);
  void close() { stream_->close(); }
  // Sends nothing more, and the peer sees the end; its frames can still be read.
  void finish();
  // Neither side sends any more, but received frames can still be read.
  void give_up();
  bool open() const { return stream_->open(); }
  bool idle() const { return !draining_; }  // nothing is queued
  const std::shared_ptr<Stream>& stream() const { return stream_; }

 private:
  static Task<> drain(std::shared_ptr<Link> self);
  static constexpr std::size_t kMaxQueued = 64 * 1024 * 1024;
  Service& service_;
  std::shared_ptr<Stream> stream_;
  std::string queued_;
  std::uint64_t sent_ = 0, taken_ = 0;  // frames
  bool draining_ = false;
};

}  // namespace anello::control
