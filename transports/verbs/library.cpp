#include "transports/verbs/library.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

#include <cstdint>
#include <type_traits>

#include <dlfcn.h>

namespace anello::transport {
namespace {

// Before Linux 5.12, a child made the parent's pages move away from the adapter unless rdma-core knew of it in time. An
// rdma-core without the question is as old.
void make_forks_safe(void* handle) {
  const auto ask = reinterpret_cast<decltype(&::ibv_is_fork_initialized)>(::dlsym(handle, "ibv_is_fork_initialized"));
  const auto init = reinterpret_cast<decltype(&::ibv_fork_init)>(::dlsym(handle, "ibv_fork_init"));
  if (ask != nullptr && ask() != IBV_FORK_DISABLED) return;
  if (init == nullptr || init() != 0)
    log::warn(-1, "verbs: ibv_fork_init failed; children of this process are not safe");
}

VerbsLibrary load() {
  void* const handle = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ANELLO_ERR_SYSTEM, text("libibverbs cannot be loaded: ", ::dlerror(),
                                        ". Install rdma-core (Debian: libibverbs1 and ibverbs-providers)."));
  }
  VerbsLibrary library;
  const auto need = [&](auto& field, const char* name) {
    void* const address = ::dlsym(handle, name);
    if (address == nullptr) throw Error(ANELLO_ERR_SYSTEM, text("libibverbs has no ", name, ": update rdma-core"));
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(address);
  };
#define ANELLO_VERBS_CALL(field, name) need(library.field, #name);
#include "transports/verbs/library.def"
#undef ANELLO_VERBS_CALL
  library.reg_mr_with_hints =
      reinterpret_cast<decltype(library.reg_mr_with_hints)>(::dlsym(handle, "ibv_reg_mr_iova2"));
  library.reg_dma_buf = reinterpret_cast<decltype(library.reg_dma_buf)>(::dlsym(handle, "ibv_reg_dmabuf_mr"));
  make_forks_safe(handle);
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
