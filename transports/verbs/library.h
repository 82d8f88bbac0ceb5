#pragma once
// libibverbs, loaded at run time: a machine without it, or without an adapter, is not affected.
#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

namespace anello::transport {

struct VerbsLibrary {
#define ANELLO_VERBS_CALL(field, name) decltype(&::name) field = nullptr;
#include "transports/verbs/library.def"
#undef ANELLO_VERBS_CALL
  // The same as reg_mr with flags that a device may ignore. Null: this libibverbs is older than those (28).
  decltype(&::ibv_reg_mr_iova2) reg_mr_with_hints = nullptr;
  // ibv_reg_dmabuf_mr: registers part of a dma-buf, whose first byte peers and requests find at the address. Null: this
  // libibverbs is older than that (34). Its header may be, too.
  ibv_mr* (*reg_dma_buf)(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int file,
                         int access) = nullptr;
};

// Registers memory whose contents this process looks at after a completion only: the device may store what comes in
// any order before that (relaxed ordering). access: ibv_access_flags. Null, and errno, if it cannot be registered.
ibv_mr* register_memory(const VerbsLibrary& library, ibv_pd* domain, void* at, std::size_t bytes, int access);

// Throws Error, which says what to install.
const VerbsLibrary& verbs_library();

}  // namespace anello::transport
