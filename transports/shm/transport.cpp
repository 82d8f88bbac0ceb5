#include "transports/shm/transport.h"

#include "base/error.h"
#include "base/file_limit.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "transports/shm/endpoint.h"

#include <bit>
#include <cerrno>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace anello::transport {
namespace {

class ShmTransport final : public Transport {
 public:
  ShmTransport(const memory::Arena& arena, KeyRequest request) : arena_(arena), memory_(arena, std::move(request)) {}

  std::string_view name() const override { return "shm"; }
  bool needs_connection() const override { return false; }
  RemoteMemory* remote_memory() override { return &memory_; }

  std::unique_ptr<Endpoint> open(int peer, int local_peer, Connections /*connections*/) override {
    const memory::ArenaLayout& layout = arena_.layout();
    if (!arena_ || local_peer < 0 || local_peer >= layout.ranks || local_peer == arena_.index()) {
      throw Error(ANELLO_ERR_INTERNAL, text("rank ", peer, " shares no memory with this rank"), peer);
    }
    if (!std::has_single_bit(layout.ring_bytes) || layout.ring_bytes < kMinRingBytes) {
      throw Error(ANELLO_ERR_INTERNAL,
                  text("a ring of ", layout.ring_bytes, " bytes is not a power of two from ", kMinRingBytes), peer);
    }
    // An end touches these lines before the first frame: without pages, a look for a frame could fill the machine.
    if (!commit_front(arena_.index(), local_peer) || !commit_front(local_peer, arena_.index())) {
      throw Error(
          ANELLO_ERR_RESOURCE,
          text("no shared memory for the lane to rank ", peer, ": raise the memory limit of this machine or container"),
          peer);
    }
    return std::make_unique<ShmEndpoint>(arena_, peer, local_peer);
  }

 private:
  bool commit_front(int from, int to) const {
    const memory::ArenaLayout& layout = arena_.layout();
    const std::size_t ring = std::size_t(from) * layout.ranks + to;
    return arena_.commit(layout.rings() + ring * layout.ring_stride(), sizeof(memory::RingControl) + memory::kLine);
  }

  memory::Arena arena_;
  ProcessesMemory memory_;
};

// Tries each step of sharing memory, on a page of its own.
std::string try_sealed_memory() {
  if (std::string why = file_limit_forbids(4096); !why.empty()) return why;
  const UniqueFd memory(::memfd_create("anello-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return system_text("memfd_create", errno);
  if (::ftruncate(memory.get(), 4096) != 0) return system_text("ftruncate of a memfd", errno);
  if (::fallocate(memory.get(), 0, 0, 4096) != 0) return system_text("fallocate of a memfd", errno);
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_text("sealing a memfd", errno);
  }
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (page == MAP_FAILED) return system_text("mmap of a memfd", errno);
  ::munmap(page, 4096);
  return {};
}

std::string try_abstract_socket() {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return system_text("socket(AF_UNIX)", errno);
  // The kernel picks an unused abstract name if bind gets none.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0) {
    return system_text("binding an abstract Unix socket", errno);
  }
  return {};
}

}  // namespace

std::unique_ptr<Transport> make_shm(const memory::Arena& arena, KeyRequest request) {
  return std::make_unique<ShmTransport>(arena, std::move(request));
}

std::string shm_why_not() {
  std::string reason = try_sealed_memory();
  if (reason.empty()) reason = try_abstract_socket();
  if (reason.empty()) {
    const UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) reason = system_text("eventfd", errno);
  }
  if (reason.empty()) return {};
  return text(reason, "; a sandbox or container policy forbids it: allow it there, or use tcp");
}

bool shm_reaches(const Place& a, const Place& b) { return share_an_arena(a, b); }

std::string shm_why_unreached(const Place& a, const Place& b) {
  if (a.network != b.network) return "shm is for one host and network namespace";
  if (a.user != b.user) return text("shm is for one user, but these are users ", a.user, " and ", b.user);
  return "mapping the memory that shm shares did not work between them";
}

}  // namespace anello::transport
