#include "transports/verbs/library.h"

#include "base/error.h"
#include "base/text.h"

#include <type_traits>

#include <dlfcn.h>

namespace anello::transport {
namespace {

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
  return library;
}

}  // namespace

const VerbsLibrary& verbs_library() {
  // A failure is tried again: the static stays uninitialised when its initialiser throws.
  static const VerbsLibrary loaded = load();
  return loaded;
}

}  // namespace anello::transport
