#pragma once
// A rank's routes to all others, and the transports that their lanes are of. Requires the rank's lock.
#include "control/job.h"
#include "executor/parts.h"
#include "executor/route.h"
#include "progress/descriptors.h"
#include "progress/source.h"
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::executor {

struct AvailableTransport {
  std::uint32_t bit;  // transports/registry.h
  std::unique_ptr<transport::Transport> transport;
};

class Routes final : public progress::Source {
 public:
  Routes(Parts& parts, std::vector<AvailableTransport> transports);

  // Made when first asked for.
  Route& to(int world);
  // Null: nobody has asked for it.
  Route* find(int world) const { return routes_[static_cast<std::size_t>(world)].get(); }

  // Of a new flow: its route, and what messages need to know of the peer.
  void set_up(Flow& flow);
  // The flow has something to send: its lane is opened, if it is not, and looks at it when there is room.
  void want_to_send(Flow& flow);
  // Over the connection, where the transport needs one. What cannot be opened fails the communicators that have its
  // peer.
  void open(Route& route, UniqueFd socket);
  // Lanes in shared memory that their peers have begun to send over.
  void open_asked();
  // Its lane has ended.
  void take_out(Route& route);

  bool has_broken() const { return has_broken_; }
  int sockets() const { return sockets_; }

  // Takes what has come over all of them, then sends what can be sent. True: something moved.
  bool move() override;
  // Each lane asks for what would wake this rank, a full one for room. True: something is there already.
  bool arm() override;
  // Where sockets alone are open: what is still to come of the frame that has the most of it. Else 0.
  std::size_t rest_of_frames() const;

  // ---- Lanes that still have something to send though the operations that it is of are done ----
  // Counts one of them as an operation under way, if nothing else is.
  void count_unsent();
  // What was unsent has left, or nobody wants it any more.
  void uncount_unsent(Route& route);
  // At the end of a call, of a lane that has work.
  void push_or_watch(Route& route);

  // ---- Transports ----
  // The transport of the lane to a rank.
  transport::Transport& transport_to(int world) const { return *transport_of_[std::size_t(world)]; }
  // The way to a rank's memory of a space, which may be another transport's; null: none.
  transport::RemoteMemory* memory_of(int world, memory::Space::Kind space = memory::Space::Kind::host) const {
    return memory_of_[std::size_t(space)][std::size_t(world)];
  }
  const std::vector<transport::RemoteMemory*>& memories() const { return memories_; }
  transport::RemoteMemory* memory_of(const Group& group, int peer) const {
    return memory_of(group.ranks[std::size_t(peer)]);
  }
  transport::RemotePeer remote_peer(const Group& group, int peer) const {
    const int world = group.ranks[std::size_t(peer)];
    return {world, job_.members()[std::size_t(world)].local_index};
  }
  // Whether the peer is a thread of this process, whose addresses are this one's.
  bool shares_addresses(const Group& group, int peer) const {
    const transport::RemoteMemory* const memory = memory_of(group, peer);
    return memory != nullptr && memory->shares_addresses();
  }
  transport::RemoteMemory::State prepare(const Group& group, int peer, std::uint64_t key) const {
    transport::RemoteMemory* const memory = memory_of(group, peer);
    return memory != nullptr ? memory->prepare(remote_peer(group, peer), key) : transport::RemoteMemory::State::refused;
  }

  // At the end: hands over what lanes hold, and waits until the peers' systems have it, as long as they take it.
  void drain();
  void close() { routes_.clear(); }

 private:
  // Something is to be sent: opens its lane, or asks for the connection that it needs.
  void begin_opening(Route& route);
  // Throws Error, std::bad_alloc.
  void make_lane(Route& route, UniqueFd socket);
  void mark_ready_sockets();
  void watch(Route& route, bool add);
  void wait_until_sent() const;

  Parts& parts_;
  control::Job& job_;
  progress::Descriptors& descriptors_;
  std::vector<AvailableTransport> transports_;
  // By world rank; null: this one's.
  std::vector<transport::Transport*> transport_of_;
  std::array<std::vector<transport::RemoteMemory*>, memory::Space::kKinds> memory_of_;  // by space
  std::vector<transport::RemoteMemory*> memories_;                                      // each once
  std::vector<std::unique_ptr<Route>> routes_;  // by world rank; null until used
  std::vector<Route*> open_;
  int sockets_ = 0;  // of the open ones
  bool has_broken_ = false;
};

}  // namespace anello::executor
