#pragma once
// What several checks ask about this host.
#include <string>

namespace info::doctor {

// "docker", "podman", ..; empty: this is no container, or one that does not show.
std::string container_engine();
// /sys/class/infiniband names one.
bool has_rdma_adapter();
bool has_gpu();
// An address of this host for other hosts, if it has any; see control::address_towards.
std::string outward_address();

}  // namespace info::doctor
