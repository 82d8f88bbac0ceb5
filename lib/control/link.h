#pragma once
// Frames over a stream: reading one at a time, sending without waiting. What is sent is queued within a bound; a
// peer that does not read has its link ended.
//
// Each frame carries a code (HMAC-SHA256, 128 bits) under the connection's own key over its number, its head and its
// body: what is changed, repeated, left out or put in on the way ends the link. The head has a checksum besides, so
// that a wrong length is not waited for.
#include "control/stream.h"
#include "control/wire.h"

#include <memory>

namespace anello::control {

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(Service& service, std::shared_ptr<Stream> stream) : service_(service), stream_(std::move(stream)) {}

  Task<Frame> receive();  // throws Error
  void send(const Frame& frame);
  // Until everything queued has gone to the kernel, the link has failed, or ms have passed.
  static Task<> flushed(std::shared_ptr<Link> self, std::int64_t ms);
  void close() { stream_->close(); }
  // Nothing more goes out, and the peer sees the end; what it sends can still be read.
  void finish();
  // Nothing more goes either way, but what has come can still be read.
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
