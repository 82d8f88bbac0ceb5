#pragma once
// A rank's routes to all others, and the transports that their lanes are of. Requires the rank's lock.
#include "control/job.h"
#include "executor/route.h"
#include "progress/descriptors.h"
#include "transports/remote_memory.h"
#include "transports/transport.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::executor {

class Context;

struct AvailableTransport {
  std::uint32_t bit;  // transports/registry.h
  std::unique_ptr<transport::Transport> transport;
};

class Routes {
 public:
  Routes(Context& context, control::Job& job, progress::Descriptors& descriptors,
         std::vector<AvailableTransport> transports);

  // Made when first asked for.
  Route& to(int world);
  // Null: nobody has asked for it.
  Route* find(int world) const { return routes_[static_cast<std::size_t>(world)].get(); }

  // Something is to be sent: opens its lane, or asks for the connection that it needs.
  void begin_opening(Route& route);
  // Over the connection, where the transport needs one. Throws Error, std::bad_alloc.
  void open(Route& route, UniqueFd socket);
  // Lanes in shared memory that their peers have begun to send over.
  void open_asked();
  // Its lane has ended.
  void take_out(Route& route);

  const std::vector<Route*>& open_ones() const { return open_; }
  bool has_broken() const { return has_broken_; }
  int sockets() const { return sockets_; }

  // Takes what has come over all of them, then sends what can be sent. True: something moved.
  bool move();
  // Each lane asks for what would wake this rank, a full one for room. True: something is there already.
  bool arm();
  // Where sockets alone are open: what is still to come of the frame that has the most of it. Else 0.
  std::size_t rest_of_frames() const;

  // The transport of the lane to a rank.
  transport::Transport& transport_to(int world) const { return *transport_of_[std::size_t(world)]; }
  // The way to a rank's memory of a space, which may be another transport's; null: none.
  transport::RemoteMemory* memory_of(int world, memory::Space::Kind space = memory::Space::Kind::host) const {
    return memory_of_[std::size_t(space)][std::size_t(world)];
  }
  const std::vector<transport::RemoteMemory*>& memories() const { return memories_; }

  // At the end: hands over what lanes hold, and waits until the peers' systems have it, as long as they take it.
  void drain();
  void close() { routes_.clear(); }

 private:
  void mark_ready_sockets();
  void watch(Route& route, bool add);
  void wait_until_sent() const;

  Context& context_;
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
