#include "transports/verbs/library.h"

#include "base/log.h"
#include "transports/verbs/shared_object.h"

#include <cstdint>

namespace anello::transport {
namespace {

// Before Linux 5.12, a child made the parent's pages move away from the adapter unless rdma-core knew of it in time. An
// rdma-core without the question is as old.
void make_forks_safe(const SharedObject& object) {
  decltype(&::ibv_is_fork_initialized) ask = nullptr;
  decltype(&::ibv_fork_init) init = nullptr;
  if (object.find(ask, "ibv_is_fork_initialized") && ask() != IBV_FORK_DISABLED) return;
  if (!object.find(init, "ibv_fork_init") || init() != 0)
    log::warn(-1, "verbs: ibv_fork_init failed; children of this process are not safe");
}

VerbsLibrary load() {
  const SharedObject object("libibverbs", "libibverbs cannot be loaded",
                            "Install rdma-core (Debian: libibverbs1 and ibverbs-providers).");
  VerbsLibrary library;
#define ANELLO_VERBS_CALL(field, name) object.need(library.field, #name);
#include "transports/verbs/library.def"
#undef ANELLO_VERBS_CALL
  object.find(library.reg_mr_with_hints, "ibv_reg_mr_iova2");
  object.find(library.reg_dma_buf, "ibv_reg_dmabuf_mr");
  make_forks_safe(object);
  return library;
}

}  // namespace

const VerbsLibrary& verbs_library() {
  // A failure is tried again: the static stays uninitialised when its initialiser throws.
  static const VerbsLibrary loaded = load();
  return loaded;
}

ibv_mr* register_memory(const VerbsLibrary& library, ibv_pd* domain, void* at, std::size_t bytes, int access) {
  if (library.reg_mr_with_hints == nullptr) return library.reg_mr(domain, at, bytes, access);
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return library.reg_mr_with_hints(domain, at, bytes, address, unsigned(access) | IBV_ACCESS_RELAXED_ORDERING);
}

}  // namespace anello::transport
