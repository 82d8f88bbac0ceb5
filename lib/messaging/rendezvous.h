#pragma once
// How a message of send that does not go at once comes to its receiver. The sender requests to send it (RTS) and, where
// the receiver may be able to reach it, says where it lies. Once there is a receive for it, the receiver either gets it
// from there and answers that it is done, or answers that it may be sent (CTS).
#include "messaging/frame.h"

#include <cstddef>
#include <cstdint>

namespace anello::messaging {

// Where bytes lie at another rank, as that rank has said.
struct RemotePlace {
  enum class In : std::uint8_t { nowhere, region, process };
  static constexpr int kBytesBits = 24;

  In in = In::nowhere;       // nowhere: it has not said
  std::uint64_t region = 0;  // its key, of bytes in a region
  std::uint64_t at = 0;      // the offset there, or the address in the rank's process
  std::size_t bytes = 0;

  static RemotePlace in_region(std::uint64_t region, std::uint64_t offset, std::size_t bytes) {
    return {In::region, region, offset, bytes};
  }
  static RemotePlace in_process(std::uint64_t address, std::size_t bytes) { return {In::process, 0, address, bytes}; }
  bool is_known() const { return in != In::nowhere; }

  // Whether an RTS has room for it: of one in a region, digest is the key, and argument has both others.
  bool fits_a_header() const { return bytes >> kBytesBits == 0 && (in != In::region || at >> (64 - kBytesBits) == 0); }
  // The RTS that says it, with the message's length.
  void tell(transport::FrameHeader& header) const {
    header.kind = static_cast<std::uint16_t>(in == In::region ? FrameKind::rts_region : FrameKind::rts_process);
    header.digest = in == In::region ? region : at;
    header.argument = in == In::region ? at << kBytesBits | bytes : bytes;
  }
  // What an RTS says; of one that says no place, the length alone.
  static RemotePlace told(const transport::FrameHeader& header) {
    constexpr std::uint64_t kBytes = (std::uint64_t{1} << kBytesBits) - 1;
    switch (static_cast<FrameKind>(header.kind)) {
      case FrameKind::rts_region:
        return in_region(header.digest, header.argument >> kBytesBits, std::size_t(header.argument & kBytes));
      case FrameKind::rts_process: return in_process(header.digest, std::size_t(header.argument & kBytes));
      default: return {In::nowhere, 0, 0, std::size_t(header.argument)};
    }
  }
};

static_assert(kMostGet >> RemotePlace::kBytesBits == 0);

inline bool says_place(const transport::FrameHeader& header) {
  return header.kind == static_cast<std::uint16_t>(FrameKind::rts_region) ||
         header.kind == static_cast<std::uint16_t>(FrameKind::rts_process);
}

// The flags of a CTS: the receiver's answer to an RTS.
enum class Answer : std::uint16_t {
  send = 0,        // it is awaited
  done = 1,        // send nothing: the receiver has got it, or nobody takes it
  send_far = 2,    // send it, and the next ones of its size without saying where they lie: getting them takes longer
                   // (read_policy.h); tag: so many
  send_closed = 3  // send it, and all others that lie in no region: the sender's process cannot be read
};

}  // namespace anello::messaging
