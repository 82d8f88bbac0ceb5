#include "transports/verbs/pages.h"

#include "base/error.h"
#include "base/unique_fd.h"

#include <cerrno>

#include <sys/mman.h>

namespace anello::transport {

VerbsPages::VerbsPages(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw Error(ANELLO_ERR_RESOURCE, system_text("mmap", errno));
  memory_ = {static_cast<std::byte*>(at), bytes};
  ::madvise(at, bytes, MADV_DONTFORK);
}

VerbsPages::~VerbsPages() {
  if (!in_forked_child()) ::munmap(memory_.data(), memory_.size());
}

}  // namespace anello::transport
