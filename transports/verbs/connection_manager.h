#pragma once
// librdmacm, the connection manager's library, loaded at run time, and only where there is an iWARP adapter.
#include <rdma/rdma_cma.h>

namespace anello::transport {

struct ConnectionManager {
#define ANELLO_CM_CALL(field, name) decltype(&::name) field = nullptr;
#include "transports/verbs/connection_manager.def"
#undef ANELLO_CM_CALL
};

// Throws Error, which says what to install.
const ConnectionManager& connection_manager();

}  // namespace anello::transport
