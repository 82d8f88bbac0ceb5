#include "bootstrap/key_space.h"

#include "base/unique_fd.h"
#include "bootstrap/pmi.h"
#include "bootstrap/pmi2.h"

#include <string_view>

#include <link.h>
#include <sys/stat.h>

namespace anello::bootstrap {

std::unique_ptr<KeySpace> open_key_space(const KeySpaceAt& at, int rank) {
  if (at.version == 2) return std::make_unique<Pmi2>(at.descriptor, at.job, rank);
  return std::make_unique<Pmi>(at.descriptor);
}

namespace {

constexpr std::int64_t kFinaliseMs = 2'000;

// Which socket a descriptor stands for; 0: none.
ino_t socket_behind(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

struct OfProcess {
  OfProcess(const KeySpaceAt& at, int rank)
      : descriptor(at.descriptor), socket(socket_behind(descriptor)), space(open_key_space(at, rank)) {}
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;
  // MPI finalises it itself, and may have closed the descriptor, whose number then is another file's.
  ~OfProcess() {
    if (in_forked_child() || has_mpi() || socket_behind(descriptor) != socket) return;
    try {
      space->finalise(Deadline::in_ms(kFinaliseMs));
    } catch (...) {  // the launcher is gone, or has never answered
    }
  }

  int descriptor;
  ino_t socket;
  std::unique_ptr<KeySpace> space;
};

}  // namespace

KeySpace& key_space_of_process(const KeySpaceAt& at, int rank) {
  static const OfProcess made(at, rank);
  return *made.space;
}

// By the names of the shared objects: an extension of Python shows its symbols to nobody else.
bool has_mpi() {
  const auto is_mpi = [](dl_phdr_info* object, std::size_t, void*) {
    std::string_view name = object->dlpi_name;
    name.remove_prefix(name.rfind('/') + 1);
    for (const std::string_view known : {"libmpi.", "libmpi_", "libmpich", "libmpifort", "libmpicxx", "libpmi"})
      if (name.substr(0, known.size()) == known) return 1;
    return 0;
  };
  return ::dl_iterate_phdr(is_mpi, nullptr) != 0;
}

}  // namespace anello::bootstrap
