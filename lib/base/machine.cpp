#include "base/machine.h"

#include "base/text.h"

#include <cstring>
#include <fstream>

#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace anello {
namespace {

#if defined(__x86_64__)
// Asks the processor itself: /proc/cpuinfo takes milliseconds if there are many processors.
std::string model() {
  unsigned words[12] = {};
  for (unsigned part = 0; part < 3; ++part) {
    unsigned* const at = words + 4 * part;
    if (__get_cpuid(0x80000002u + part, at, at + 1, at + 2, at + 3) == 0) return "";
  }
  char name[sizeof words + 1] = {};
  std::memcpy(name, words, sizeof words);
  return name;
}
#else
std::string model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 1);
  }
  return "";
}
#endif

std::string without_outer_spaces(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string machine_name() {
  std::string name = without_outer_spaces(model());
  if (utsname system{}; name.empty() && ::uname(&system) == 0) name = system.machine;
  return text(name, ", ", ::sysconf(_SC_NPROCESSORS_ONLN), " processors");
}

}  // namespace anello
