#include "transports/verbs/connection_manager.h"

#include "base/error.h"
#include "base/text.h"

#include <type_traits>

#include <dlfcn.h>

namespace anello::transport {
namespace {

ConnectionManager load() {
  void* const handle = ::dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ANELLO_ERR_SYSTEM, text("iWARP takes librdmacm, which cannot be loaded: ", ::dlerror(),
                                        ". Install it (Debian: librdmacm1)."));
  }
  ConnectionManager manager;
  const auto need = [&](auto& field, const char* name) {
    void* const address = ::dlsym(handle, name);
    if (address == nullptr) throw Error(ANELLO_ERR_SYSTEM, text("librdmacm has no ", name, ": update rdma-core"));
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(address);
  };
#define ANELLO_CM_CALL(field, name) need(manager.field, #name);
#include "transports/verbs/connection_manager.def"
#undef ANELLO_CM_CALL
  return manager;
}

}  // namespace

const ConnectionManager& connection_manager() {
  static const ConnectionManager loaded = load();  // a failure is tried again
  return loaded;
}

}  // namespace anello::transport
