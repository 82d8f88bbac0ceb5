#pragma once
// A rank's routes to all others, and the transports of their lanes. Requires the rank's lock.
#include "control/job.h"
#include "executor/parts.h"
#include "executor/route.h"
#include "progress/descriptors.h"
#include "progress/source.h"
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <cstddef>
#include <cstdint>
#include <map>
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

  // Makes the route at the first call.
  Route& to(int world);
  // Null if the route has not been made.
  Route* find(int world) const { return routes_[static_cast<std::size_t>(world)].get(); }

  // Sets a new flow's route, and the facts about the peer that messages need.
  void set_up(Flow& flow);
  // The flow has something to send: opens its lane if necessary, which looks at the flow when there is room.
  void want_to_send(Flow& flow);
  // Opens the lane, over the connections if the transport needs one. A lane that cannot be opened fails the
  // communicators that have its peer.
  void open(Route& route, transport::Connections connections);
  // Opens lanes in shared memory over which peers have begun to send.
  void open_asked();
  // Removes a route whose lane has ended.
  void take_out(Route& route);

  bool has_broken() const { return has_broken_; }
  int sockets() const { return sockets_; }

  // Takes what has come over all lanes, then sends what can be sent. True: something moved.
  bool move() override;
  // Each lane asks for the events that must wake this rank, a full one for room. True: something is there already.
  bool arm() override;
  // If only sockets are open: the largest number of bytes still missing from an arriving frame. Else 0.
  std::size_t rest_of_frames() const;

  // ---- Lanes that still have unsent bytes of operations that are done ----
  // Counts one such lane as an operation in flight, if nothing else is in flight.
  void count_unsent();
  // The unsent bytes have left or are no longer wanted.
  void uncount_unsent(Route& route);
  // Called at the end of a call, for a lane that has work.
  void push_or_watch(Route& route);

  // ---- Transports ----
  // The transport of the lane to a rank.
  transport::Transport& transport_to(int world) const { return *transport_of_[std::size_t(world)]; }
  // The access to the memory of a rank of this host, perhaps by another transport than the lane's; null: there is none.
  transport::RemoteMemory* memory_of(int world) const { return memory_of_[std::size_t(world)]; }
  // The access to a rank's memory by adapters, which goes with the lane; null: there is none.
  transport::RemoteMemory* far_memory_of(int world) const {
    transport::RemoteMemory* const memory = transport_to(world).remote_memory();
    return memory != nullptr && memory->is_far() ? memory : nullptr;
  }
  // What kernels of a device of this process reach of the memory of ranks of this host. Throws Error.
  transport::RemoteMemory& device_memory(int device);
  // Control's answer for a key that was requested.
  void answered(int world, std::uint64_t key, memory::PassedRange memory);
  const std::vector<transport::RemoteMemory*>& memories() const { return memories_; }
  transport::RemoteMemory* memory_of(const Group& group, int peer) const {
    return memory_of(group.ranks[std::size_t(peer)]);
  }
  transport::RemotePeer remote_peer(const Group& group, int peer) const {
    const int world = group.ranks[std::size_t(peer)];
    return {world, job_.members()[std::size_t(world)].local_index};
  }
  // Whether the peer is a thread of this process, so that its addresses are valid here.
  bool shares_addresses(const Group& group, int peer) const {
    const transport::RemoteMemory* const memory = memory_of(group, peer);
    return memory != nullptr && memory->shares_addresses();
  }
  transport::RemoteMemory::State prepare(const Group& group, int peer, std::uint64_t key) const {
    transport::RemoteMemory* const memory = memory_of(group, peer);
    return memory != nullptr ? memory->prepare(remote_peer(group, peer), key) : transport::RemoteMemory::State::refused;
  }

  // At the end: hands over the lanes' bytes, and waits until the peers' systems have them, as long as they take any.
  void drain();
  void close() { routes_.clear(); }

 private:
  // Opens the lane of a route that has something to send, or asks for the connection that it needs.
  void begin_opening(Route& route);
  // Throws Error, std::bad_alloc.
  void make_lane(Route& route, transport::Connections connections);
  void mark_ready_sockets();
  void watch(Route& route, bool add);
  void wait_until_sent() const;

  Parts& parts_;
  control::Job& job_;
  progress::Descriptors& descriptors_;
  std::vector<AvailableTransport> transports_;
  // By world rank; null for this rank.
  std::vector<transport::Transport*> transport_of_;
  std::vector<transport::RemoteMemory*> memory_of_;
  std::vector<transport::RemoteMemory*> memories_;                           // each once
  std::map<int, std::unique_ptr<transport::RemoteMemory>> device_memories_;  // by device
  std::vector<std::unique_ptr<Route>> routes_;                               // by world rank; null until used
  std::vector<Route*> open_;
  int sockets_ = 0;  // among the open ones
  bool has_broken_ = false;
};

}  // namespace anello::executor
