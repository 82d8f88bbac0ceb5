// A list of hosts, as a scheduler's variable, a command line or a host file has it; and the words of ANELLO_INTERFACE
// and ANELLO_PORT_RANGE.
#include "base/port_range.h"
#include "base/interface_filter.h"
#include "base/node_list.h"
#include "fuzz/input.h"

#include <cstdlib>
#include <string>

using namespace anello;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  constexpr std::size_t kMost = 1000;
  fuzz::Input input(bytes, count);
  const bool list = input.below(4) != 3;
  const std::string_view words = input.text();
  if (!list) {
    InterfaceFilter(words).matches("eth0", "10.1.2.3");
    InterfaceFilter(words).names("eth0", "fe80::1%eth0");
    int low = 0, high = 0;
    if (parse_port_range(words, low, high) && (low < 0 || low > high || high > 65535)) std::abort();
    return 0;
  }
  const NodeList nodes = expand_node_list(words, kMost);
  if (nodes.wrong.empty() == nodes.names.empty() || nodes.names.size() > kMost) std::abort();
  std::string again;
  for (const std::string& name : nodes.names) {
    if (name.empty() || name.size() > 255 || name.find_first_of("[],") != std::string::npos) std::abort();
    again += (again.empty() ? "" : ",") + name;
  }
  // The names are a list that stands for itself.
  if (nodes && expand_node_list(again, kMost).names != nodes.names) std::abort();
  return 0;
}
