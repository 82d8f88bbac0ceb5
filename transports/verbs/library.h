#pragma once
// libibverbs, loaded at run time: a machine without it, or without an adapter, is not affected.
#include <infiniband/verbs.h>

namespace anello::transport {

struct VerbsLibrary {
#define ANELLO_VERBS_CALL(field, name) decltype(&::name) field = nullptr;
#include "transports/verbs/library.def"
#undef ANELLO_VERBS_CALL
};

// Throws Error, which says what to install.
const VerbsLibrary& verbs_library();

}  // namespace anello::transport
