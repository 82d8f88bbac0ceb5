#include "memory/process_memory.h"

#include <algorithm>
#include <cerrno>

#include <sys/random.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace anello::memory {

Sample own_sample() {
  // Leaked: peers may read it as long as the process exists.
  static const std::uint64_t* const number = [] {
    auto* const drawn = new std::uint64_t(0);
    while (*drawn == 0 && ::getrandom(drawn, sizeof *drawn, 0) < 0 && errno == EINTR) {
    }
    return drawn;
  }();
  return {static_cast<std::uint64_t>(::getpid()), reinterpret_cast<std::uintptr_t>(number), *number};
}

bool can_read(const Sample& sample) { return read_process(sample, 0, nullptr, 0) == 0; }

bool can_be_read(std::uint64_t address, std::size_t bytes) {
  if (bytes == 0) return true;
  std::byte ends[2];
  const iovec local{ends, sizeof ends};
  const iovec remote[2] = {{reinterpret_cast<void*>(address), 1}, {reinterpret_cast<void*>(address + bytes - 1), 1}};
  return ::process_vm_readv(::getpid(), &local, 1, remote, 2, 0) == sizeof ends;
}

int read_process(const Sample& sample, std::uint64_t address, std::byte* into, std::size_t bytes) {
  // One call moves less than 2 GiB, even if it is asked for more.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  if (sample.process == 0 || sample.number == 0) return ESRCH;
  std::size_t done = 0;
  do {
    // One call reads only one process. The number identifies it, which costs less than a second call.
    std::uint64_t number = 0;
    const std::size_t part = std::min(bytes - done, kMost);
    const iovec local[2] = {{&number, sizeof number}, {into + done, part}};
    const iovec remote[2] = {{reinterpret_cast<void*>(sample.address), sizeof number},
                             {reinterpret_cast<void*>(address + done), part}};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(sample.process), local, 2, remote, 2, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EFAULT) return errno;
    if (got < static_cast<ssize_t>(sizeof number) || number != sample.number) return ESRCH;
    const std::size_t moved = static_cast<std::size_t>(got) - sizeof number;
    if (moved == 0 && part > 0) return EFAULT;
    done += moved;
  } while (done < bytes);
  return 0;
}

}  // namespace anello::memory
