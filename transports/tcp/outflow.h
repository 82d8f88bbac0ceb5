#pragma once
// The sending half of a socket. Header, payload and checksum leave in one system call; if the kernel takes only a part,
// this remembers how much.
#include "transports/tcp/wire.h"

namespace anello::transport {

class Outflow {
 public:
  Outflow(int fd, bool seals) : fd_(fd), seals_(seals) {}

  // As Endpoint::send.
  bool write(const FrameHeader& header, const std::byte* payload);
  bool mid_frame() const { return sent_ > 0; }
  std::size_t payload_sent() const;
  // The refused frame will not be offered again.
  void forget() { summed_ = false; }
  bool blocked() const { return blocked_; }     // the last write found the kernel's buffer full
  int broken() const { return error_number_; }  // errno of the write that failed, or 0

 private:
  void sum(const FrameHeader& header, const std::byte* payload);
  bool is_summed(const FrameHeader& header, const std::byte* payload) const;

  int fd_;
  bool seals_;
  WireHeader head_;         // of the frame under way
  std::uint32_t seal_ = 0;  // the checksum behind its payload
  const std::byte* summed_payload_ = nullptr;
  bool summed_ = false;   // head_ and seal_ are right for the frame under way, or for the refused one
  std::size_t sent_ = 0;  // bytes of header, payload and checksum together
  bool blocked_ = false;
  int error_number_ = 0;
};

}  // namespace anello::transport
