#include "info/doctor/surroundings.h"

#include "base/network_interfaces.h"
#include "base/system_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace info::doctor {

std::string container_engine() {
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "kubernetes";
  // Others tell systemd; PID 1 of a container has the variable.
  const std::string told = anello::first_line("/run/systemd/container");
  if (!told.empty()) return told;
  const char* const variable = std::getenv("container");
  return variable != nullptr ? variable : "";
}

bool has_rdma_adapter() {
  std::error_code error;
  const std::filesystem::directory_iterator adapters("/sys/class/infiniband", error);
  return !error && adapters != std::filesystem::directory_iterator();
}

bool has_gpu() { return access("/dev/nvidia0", F_OK) == 0 || access("/proc/driver/nvidia/version", F_OK) == 0; }

std::string outward_address() {
  std::string six;
  for (const anello::NetworkInterface& each : anello::network_interfaces()) {
    if (!each.up || anello::is_loopback(each.ip) || each.has_scope() || each.is_bridge_of_engine()) continue;
    if (!each.is_ipv6()) return each.ip;
    if (six.empty()) six = each.ip;
  }
  return six;
}

}  // namespace info::doctor
