// A container shows as what it keeps apart from the host.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"
#include "info/system_file.h"

#include <sys/statvfs.h>

#include <filesystem>

namespace info::doctor {
namespace {

// The other end of each interface is in another network, as a container engine makes them.
bool has_own_network() {
  std::error_code error;
  bool any = false;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net", error)) {
    if (entry.path().filename() == "lo") continue;
    if (first_line(entry.path() / "iflink") == first_line(entry.path() / "ifindex")) return false;
    any = true;
  }
  return any;
}

constexpr double kLeast = 64 << 20;  // what container engines give unless they are told otherwise

}  // namespace

Finding container() {
  const char* const kName = "container";
  const std::string engine = container_engine();
  if (engine.empty()) return ok(kName, "none");
  if (!has_own_network()) return ok(kName, engine + ", with the host's network");
  return ok(kName, engine +
                       ", with its own network: ranks in other containers are reached over TCP (--network=host: "
                       "over shared memory)");
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
