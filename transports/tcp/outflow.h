#pragma once
// The sending half of a socket: header and payload leave in one system call, and what the kernel did not take is
// remembered.
#include "transports/transport.h"

namespace anello::transport {

class Outflow {
 public:
  explicit Outflow(int fd) : fd_(fd) {}

  // As Endpoint::send.
  bool write(const FrameHeader& header, const std::byte* payload);
  bool mid_frame() const { return sent_ > 0; }
  std::size_t payload_sent() const { return sent_ > sizeof(FrameHeader) ? sent_ - sizeof(FrameHeader) : 0; }
  bool blocked() const { return blocked_; }    // the last write found the kernel's buffer full
  int broken() const { return error_number_; }  // errno of the write that failed, 0: none

 private:
  int fd_;
  std::size_t sent_ = 0;  // of header and payload together
  bool blocked_ = false;
  int error_number_ = 0;
};

}  // namespace anello::transport
