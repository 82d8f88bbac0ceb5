#include "control/host.h"

#include "base/system_file.h"
#include "base/text.h"
#include "control/secret.h"

#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace anello::control {
namespace {

std::uint64_t number_from(std::string_view label, const std::string& material) {
  const Key key = key_from(label, bytes_of(material));
  std::uint64_t number;
  std::memcpy(&number, key.bytes().data(), sizeof number);
  return number;
}

Host look_around() {
  Host host;
  char name[256] = "unknown";
  ::gethostname(name, sizeof name - 1);
  host.name = name;
  struct stat network {};
  std::string identity = first_line("/proc/sys/kernel/random/boot_id");
  if (!identity.empty() && ::stat("/proc/self/ns/net", &network) == 0) {
    host.reach = number_from("anello host", text(identity, " ", network.st_dev, " ", network.st_ino));
  }
  host.pid = ::getpid();
  // If /proc belongs to another namespace, it has other numbers.
  char self[32] = "";
  struct stat processes {};
  if (host.reach != 0 && ::readlink("/proc/self", self, sizeof self - 1) > 0 && self == std::to_string(host.pid) &&
      ::stat("/proc/self/ns/pid", &processes) == 0) {
    host.process_space =
        number_from("anello processes", text(host.reach, " ", processes.st_dev, " ", processes.st_ino));
  }
  host.process = random_number();
  host.uid = ::geteuid();
  return host;
}

}  // namespace

const Host& this_host() {
  static const Host* const host = new Host(look_around());
  return *host;
}

}  // namespace anello::control
