#pragma once
// Data lanes on request: a connected, authenticated socket to a peer, exactly one per pair, whichever rank asked. If
// both ask at once, they use the connection that the lower rank made. Service thread only.
#include "control/stream.h"

#include <map>
#include <memory>

namespace anello::control {

class Agent;

class Lanes {
 public:
  explicit Lanes(Agent& agent) : agent_(agent) {}

  void request(int peer);
  void adopt(int from, std::shared_ptr<Stream> stream);
  // Whether a lane from the peer is being made.
  bool is_coming(int peer) const;
  void peer_gone(int peer);
  void close();

 private:
  struct Lane {
    bool wanted = false;               // this rank asked
    bool dialling = false;             // a coroutine is working on it
    bool done = false;                 // passed on
    std::shared_ptr<Stream> incoming;  // accepted from the peer, not yet confirmed
  };
  static Task<> reach(std::shared_ptr<Agent> agent, int peer);
  static Task<bool> offer(std::shared_ptr<Agent> agent, int peer, std::shared_ptr<Stream> stream);
  static Task<> receive(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream);
  void start(int peer);
  void deliver(int peer, Stream& stream);

  Agent& agent_;
  std::map<int, Lane> lanes_;
};

}  // namespace anello::control
