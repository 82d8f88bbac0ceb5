#include "transports/process_memory.h"

#include <algorithm>
#include <cerrno>

#include <sys/random.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace anello::transport {

Sample own_sample() {
  // Leaked: peers may try it as long as the process is there.
  static const std::uint64_t* const number = [] {
    auto* const drawn = new std::uint64_t(0);
    while (*drawn == 0 && ::getrandom(drawn, sizeof *drawn, 0) < 0 && errno == EINTR) {
    }
    return drawn;
  }();
  return {static_cast<std::uint64_t>(::getpid()), reinterpret_cast<std::uintptr_t>(number), *number};
}

bool can_read(const Sample& sample) {
  std::uint64_t number = 0;
  if (sample.process == 0 || sample.number == 0) return false;
  return read_process(sample.process, sample.address, reinterpret_cast<std::byte*>(&number), sizeof number) == 0 &&
         number == sample.number;
}

bool can_be_read(std::uint64_t address, std::size_t bytes) {
  if (bytes == 0) return true;
  std::byte ends[2];
  const iovec local{ends, sizeof ends};
  const iovec remote[2] = {{reinterpret_cast<void*>(address), 1}, {reinterpret_cast<void*>(address + bytes - 1), 1}};
  return ::process_vm_readv(::getpid(), &local, 1, remote, 2, 0) == sizeof ends;
}

int read_process(std::uint64_t process, std::uint64_t address, std::byte* into, std::size_t bytes) {
  // One call moves less than 2 GiB, whatever it was asked for.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, kMost);
    const iovec local{into + done, part};
    const iovec remote{reinterpret_cast<void*>(address + done), part};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(process), &local, 1, &remote, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EFAULT;
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace anello::transport
