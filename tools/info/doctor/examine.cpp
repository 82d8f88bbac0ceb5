#include "info/doctor.h"
#include "info/doctor/checks.h"

namespace info {

std::vector<shared::Finding> examine_host() {
  using namespace doctor;
  const Finding peers = peer_memory();
  return {settings(),  transports(),   container(),
          peers,       system_calls(), processors(),
          clock(),     clock_source(), shared_memory_folder(),
          file_size(), open_files(),   locked_memory(),
          host_name(), interfaces(),   ports(),
          gpus(),      rdma()};
}

}  // namespace info
