#pragma once
// What the ends of a lane tell each other over the socket that control has authenticated, before they use the adapter:
// a greeting, and a byte once the end can receive. After that, the socket only shows that the peer has ended.
#include "transports/verbs/address.h"
#include "transports/verbs/lane_shape.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace anello::transport {

// A queue pair, for the peer's that is to be connected with it.
struct VerbsPairName {
  std::uint32_t number = 0;  // 0: there is none
  std::uint32_t first_packet = 0;
  std::uint32_t reads = 0;  // of the peer that it serves at once

  bool is_right() const { return number <= 0xffffff && first_packet <= 0xffffff; }
};

// Little-endian.
struct VerbsGreeting {
  static constexpr std::uint64_t kMagic = 0x32736272'65766e61;  // "anverbs2"

  std::uint64_t magic = kMagic;
  PortAddress port;
  std::uint64_t ring = 0;  // the receiver's
  std::uint32_t ring_key = 0;
  std::uint32_t ring_slots = kSlots;
  VerbsPairName lane;
  VerbsPairName memory;  // transfers.h

  bool is_right() const;
};
static_assert(sizeof(VerbsGreeting) == 72);

class GreetingExchange {
 public:
  // Requires a connected socket.
  explicit GreetingExchange(int fd) : fd_(fd) {}

  enum class News { none, greeting, can_receive, gone, corrupt };
  // Both fit into an empty socket. False: the peer is gone.
  bool say(const VerbsGreeting& mine);
  bool say_can_receive();
  // Looks once, without waiting.
  News look();
  const VerbsGreeting& theirs() const { return theirs_; }

 private:
  int fd_;
  VerbsGreeting theirs_;
  std::size_t came_ = 0;
};

}  // namespace anello::transport
