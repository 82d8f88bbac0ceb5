#pragma once
// The rendezvous of send, for messages that do not go at once. The sender requests to send (RTS): the frame has the
// message's length in its argument and, if the receiver may be able to reach the message, its RemoteAddress as payload.
// Once a receive matches, the receiver either gets the message from there and answers that it is done, or answers that
// the sender may send it (CTS).
#include "messaging/frame.h"
#include "transports/remote_memory.h"

#include <cstddef>
#include <cstdint>

namespace anello::messaging {

inline constexpr std::size_t kAddressBytes = sizeof(transport::RemoteAddress);

inline bool is_rts(const transport::FrameHeader& header) {
  return header.kind == static_cast<std::uint16_t>(FrameKind::rts);
}
inline bool is_rts_on_device(const transport::FrameHeader& header) {
  return header.kind == static_cast<std::uint16_t>(FrameKind::rts_on_device);
}
inline bool is_step_rts(const transport::FrameHeader& header) {
  return header.kind == static_cast<std::uint16_t>(FrameKind::step_rts);
}
inline bool has_address(const transport::FrameHeader& rts) { return rts.bytes == kAddressBytes; }

// The flags of a CTS: the receiver's answer to an RTS. Steps have the first two (executor/step_gets.h).
enum class Answer : std::uint16_t {
  send = 0,        // send the message
  done = 1,        // send nothing: the receiver has got the message, or no receive takes it
  send_far = 2,    // send it, and the next ones of its size without their addresses: getting them takes longer
                   // (read_policy.h); tag: how many
  send_closed = 3  // send it, and all others that lie in no region: the sender's process cannot be read
};

}  // namespace anello::messaging
