// A container shows as what it keeps apart from the host.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"
#include "info/system_file.h"

#include <net/if.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <memory>
#include <string_view>

namespace info::doctor {
namespace {

enum class Network { of_host, own, loopback_alone };

// The other end of each interface is in another network, as a container engine makes them. What /sys shows is of the
// network in which it was mounted, which is not that of this process if the interfaces have other numbers.
Network network() {
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(), if_freenameindex);
  if (!all) return Network::of_host;
  Network found = Network::loopback_alone;
  for (const struct if_nameindex* each = all.get(); each->if_index != 0; ++each) {
    const std::filesystem::path shown = std::filesystem::path("/sys/class/net") / each->if_name;
    const std::string number = std::to_string(each->if_index);
    if (std::string_view(each->if_name) == "lo") continue;
    if (first_line(shown / "ifindex") == number && first_line(shown / "iflink") == number) return Network::of_host;
    found = Network::own;
  }
  return found;
}

// The kernel's first namespace of processes has this number always.
bool has_own_processes() {
  constexpr ino_t kFirst = 0xEFFFFFFC;
  struct stat space {};
  return stat("/proc/self/ns/pid", &space) == 0 && space.st_ino != kFirst;
}

constexpr double kLeast = 64 << 20;  // what container engines give unless they are told otherwise

}  // namespace

Finding container() {
  const char* const kName = "container";
  const std::string engine = container_engine();
  if (engine.empty()) return ok(kName, "none");
  switch (network()) {
    case Network::of_host: break;
    case Network::own:
      return ok(kName, engine +
                           ", with its own network: ranks in other containers are reached over TCP (--network=host: "
                           "over shared memory)");
    case Network::loopback_alone:
      return warning(kName, engine + ", with its own network, in which only the loopback is",
                     "Ranks in other containers and on other hosts are not reached.",
                     "docker run --network=host ..        or any network but none");
  }
  return ok(kName,
            engine + ", with the host's network" +
                (has_own_processes() ? ", but process numbers of its own: ranks in other containers do not read "
                                       "each other's memory in place, but copy it twice (--pid=host: they read it)"
                                     : ""));
}

Finding shared_memory_folder() {
  const char* const kName = "/dev/shm";
  struct statvfs about {};
  const bool there = statvfs("/dev/shm", &about) == 0;
  const double size = there ? double(about.f_blocks) * double(about.f_frsize) : 0;
  const double free = there ? double(about.f_bavail) * double(about.f_frsize) : 0;
  const std::string value = there ? in_units(size) + ", of which " + in_units(free) + " free" : "missing";
  if (size > kLeast && free > kLeast) return ok(kName, value);
  if (size > kLeast) {
    return warning(kName, value,
                   "Anello keeps nothing there, but the workers of PyTorch's DataLoader do, and end with a bus error "
                   "when it is full.",
                   "ls -l /dev/shm        shows what fills it; jobs that were killed leave files there");
  }
  const bool contained = !container_engine().empty();
  return warning(
      kName, value,
      "Anello keeps nothing there, but the workers of PyTorch's DataLoader do, and end with a bus error when "
      "it is full.",
      contained ? "docker run --shm-size=8g ..        or --ipc=host" : "sudo mount -o remount,size=8G /dev/shm");
}

}  // namespace info::doctor
