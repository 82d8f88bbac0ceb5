#include "transports/inproc/transport.h"

#include "base/text.h"
#include "transports/inproc/endpoint.h"
#include "transports/inproc/remote_memory.h"

#include <map>
#include <mutex>
#include <utility>

namespace anello::transport {
namespace {

// The lanes between the ranks of one arena that are threads of this process.
class Hub {
 public:
  std::shared_ptr<InprocLane> lane(int from, int to) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<InprocLane>& lane = lanes_[{from, to}];
    if (!lane) lane = std::make_shared<InprocLane>();
    return lane;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::shared_ptr<InprocLane>> lanes_;
};

std::shared_ptr<Hub> hub_of(const memory::Arena& arena) {
  memory::ArenaThreads& threads = arena.threads();
  const std::lock_guard held(threads.mutex);
  if (!threads.lanes) threads.lanes = std::make_shared<Hub>();
  return std::static_pointer_cast<Hub>(threads.lanes);
}

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(const memory::Arena& arena) : arena_(arena), hub_(arena ? hub_of(arena) : nullptr) {}

  std::string_view name() const override { return "inproc"; }
  bool needs_connection() const override { return false; }
  RemoteMemory* remote_memory() override { return &memory_; }

  std::unique_ptr<Endpoint> open(int peer, int local_peer, Connections /*connections*/) override {
    if (!arena_ || local_peer < 0 || local_peer >= arena_.ranks() || local_peer == arena_.index()) {
      throw Error(ANELLO_ERR_INTERNAL, text("rank ", peer, " is not a thread of this process"), peer);
    }
    const int self = arena_.index();
    return std::make_unique<InprocEndpoint>(arena_, peer, local_peer, hub_->lane(self, local_peer),
                                            hub_->lane(local_peer, self));
  }

 private:
  memory::Arena arena_;
  std::shared_ptr<Hub> hub_;
  ThreadMemory memory_;
};

}  // namespace

std::unique_ptr<Transport> make_inproc(const memory::Arena& arena) { return std::make_unique<InprocTransport>(arena); }

std::string inproc_why_not() { return {}; }

bool inproc_reaches(const Place& a, const Place& b) { return share_an_arena(a, b) && a.process == b.process; }

std::string inproc_why_unreached(const Place& a, const Place& b) {
  return a.process != b.process ? "inproc is for threads of one process"
                                : "mapping the memory that inproc shares did not work between them";
}

}  // namespace anello::transport
