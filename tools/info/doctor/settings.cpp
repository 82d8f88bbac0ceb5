// Anello's own variables in this shell, and what the library itself says of its transports.
#include "info/doctor/checks.h"

#include "base/config.h"

#include <anello/anello.h>

#include <unistd.h>

#include <cstring>
#include <vector>

namespace info::doctor {

Finding settings() {
  const char* const kName = "settings";
  const std::vector<std::string>& wrong = anello::Config::get().problems;
  if (!wrong.empty()) {
    return problem(kName, wrong.front(), "Every job of this shell fails when it creates its first communicator.",
                   "unset " + wrong.front().substr(0, wrong.front().find('=')));
  }
  const std::vector<std::string> unknown = anello::unknown_variables(environ);
  if (!unknown.empty()) {
    return warning(kName, unknown.front(), "The variable changes nothing.",
                   "unset " + unknown.front().substr(0, unknown.front().find(' ')));
  }
  int count = 0;
  for (char** each = environ; *each != nullptr; ++each) count += std::strncmp(*each, "ANELLO_", 7) == 0 ? 1 : 0;
  if (count == 0) return ok(kName, "no variable of Anello is set");
  return ok(kName, std::to_string(count) + (count == 1 ? " variable" : " variables") + " of Anello, all understood");
}

Finding transports() {
  const char* const kName = "transports";
  anello_transport_info_t transport{};
  transport.size = sizeof transport;
  std::string usable;
  for (int index = 0; anello_transport_query(index, &transport) == ANELLO_OK; ++index) {
    const std::string name = transport.name, why_not = transport.why_not;
    if (why_not.empty()) usable += (usable.empty() ? "" : ", ") + name;
    if (why_not.empty() || name == "verbs") continue;  // of adapters; see rdma()
    if (name == "shm") {
      return warning(kName, "shm is not usable",
                     "Ranks of this host send over TCP, which is several times slower: " + why_not + ".",
                     "anello-info        shows each transport; run it outside the sandbox or container to compare");
    }
    return problem(kName, name + " is not usable", "Jobs that need it do not start: " + why_not + ".", "anello-info");
  }
  return ok(kName, usable);
}

}  // namespace info::doctor
