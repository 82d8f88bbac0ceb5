#include "anellorun/secret.h"

#include "anellorun/failure.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <stdexcept>

namespace anellorun {
namespace {

unsigned char* new_page() {
  void* const page = mmap(nullptr, Secret::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) fail("mmap");
  madvise(page, Secret::kBytes, MADV_DONTDUMP);
  return static_cast<unsigned char*>(page);
}

}  // namespace

void draw(void* into, std::size_t bytes) {
  // Requests of up to 256 bytes are never partial.
  if (getrandom(into, bytes, 0) != static_cast<ssize_t>(bytes)) fail("getrandom");
}

Secret::Secret() : page_(new_page()) { draw(page_, kBytes); }

Secret::Secret(std::string_view bytes) : page_(new_page()) {
  if (bytes.size() != kBytes) throw std::runtime_error("a secret of the wrong length");
  memcpy(page_, bytes.data(), kBytes);
}

Secret::~Secret() {
  explicit_bzero(page_, kBytes);
  munmap(page_, kBytes);
}

Descriptor Secret::file() const {
  Descriptor file(memfd_create("anello-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Descriptor into;
  if (!file && (errno == EPERM || errno == EACCES || errno == ENOSYS)) {
    Pipe pipe = make_pipe();
    file = std::move(pipe.from);
    into = std::move(pipe.to);
  }
  if (!file) fail("memfd_create");
  const int writing = into ? into.get() : file.get();
  if (write(writing, page_, kBytes) != static_cast<ssize_t>(kBytes)) fail("write");
  if (into) return file;
  if (lseek(file.get(), 0, SEEK_SET) != 0) fail("lseek");
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) fail("fcntl");
  return file;
}

}  // namespace anellorun
