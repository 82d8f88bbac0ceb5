#include "info/library.h"

#include "build_info.h"

#include <anello/anello.h>

#include <sys/utsname.h>

#include <string>

namespace info {

Section library() {
  const int code = anello_version();
  const std::string version =
      std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
  const bool same = code == ANELLO_VERSION_CODE;
  utsname kernel{};
  uname(&kernel);
  return {"anello",
          {{"version", version, same ? "" : "anello-info was built for " ANELLO_VERSION_STRING},
           {"commit", anello_commit(), ""},
           {"host", kernel.nodename, ""},
           {"kernel", std::string(kernel.sysname) + " " + kernel.release + " " + kernel.machine, ""}}};
}

Section build() {
  Section section{"build",
                  {{"compiler", ANELLO_BUILD_COMPILER, ""},
                   {"type", ANELLO_BUILD_TYPE, ""},
                   {"sanitizers", ANELLO_BUILD_SANITIZERS, ""}}};
  const char* const features[][2] = {ANELLO_BUILD_FEATURES};
  for (const auto& feature : features) section.entries.push_back({feature[0], feature[1], ""});
  return section;
}

Section transports() {
  Section section{"transports", {}};
  anello_transport_info_t transport{};
  transport.size = sizeof transport;
  for (int index = 0; anello_transport_query(index, &transport) == ANELLO_OK; ++index) {
    const bool usable = transport.why_not[0] == '\0';
    section.entries.push_back({transport.name, usable ? "usable" : "not usable", transport.why_not});
  }
  return section;
}

}  // namespace info
