#pragma once
// Data lanes on request: connected, authenticated sockets to a peer, one for each rail of the pair, exactly once per
// pair, whichever rank asked. If both ask at once, they use the connections that the lower rank made. Service thread
// only.
#include "control/stream.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace anello::control {

class Agent;

class Lanes {
 public:
  explicit Lanes(Agent& agent) : agent_(agent) {}

  void request(int peer);
  void adopt(int from, std::shared_ptr<Stream> stream);
  void adopt_rail(int from, std::shared_ptr<Stream> stream);
  // Whether a lane from the peer is being made.
  bool is_coming(int peer) const;
  void peer_gone(int peer);
  void close();

 private:
  struct Lane {
    bool wanted = false;               // this rank asked
    bool dialling = false;             // a coroutine is working on it
    bool done = false;                 // passed on
    std::uint8_t attempt = 0;          // of this rank, to connect
    std::shared_ptr<Stream> incoming;  // accepted from the peer, not yet confirmed
    // The further rails that came with it, and the peer's attempt that they belong to.
    std::vector<std::pair<std::uint8_t, std::shared_ptr<Stream>>> rails;
  };
  using Streams = std::vector<std::shared_ptr<Stream>>;
  static Task<> reach(std::shared_ptr<Agent> agent, int peer);
  static Task<bool> offer(std::shared_ptr<Agent> agent, int peer, std::shared_ptr<Stream> stream);
  static Task<Streams> dial_rails(std::shared_ptr<Agent> agent, int peer, std::uint8_t attempt);
  static Task<> receive(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);
  static Task<> receive_rail(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);
  void start(int peer);
  void deliver(int peer, const Streams& streams);
  std::size_t rails_to(int peer) const;

  Agent& agent_;
  std::map<int, Lane> lanes_;
};

}  // namespace anello::control
