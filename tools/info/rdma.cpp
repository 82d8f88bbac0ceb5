#include "info/rdma.h"

#include "transports/verbs/transport.h"

namespace info {

Section rdma() {
  Section section{"rdma", {}};
  for (const anello::transport::VerbsPortReport& port : anello::transport::verbs_ports())
    section.entries.push_back({port.name, port.what, port.why_not});
  return section;
}

}  // namespace info
