#include "transports/verbs/connection_manager.h"

#include "transports/verbs/shared_object.h"

namespace anello::transport {
namespace {

ConnectionManager load() {
  const SharedObject object("librdmacm", "iWARP takes librdmacm, which cannot be loaded",
                            "Install it (Debian: librdmacm1).");
  ConnectionManager manager;
#define ANELLO_CM_CALL(field, name) object.need(manager.field, #name);
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
