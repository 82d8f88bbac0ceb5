// GPUs and RDMA adapters: where there are any, whether Anello can use them.
#include "info/cuda.h"
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"
#include "info/rdma.h"

#include <algorithm>

namespace info::doctor {

Finding gpus() {
  const char* const kName = "GPUs";
  if (!has_gpu()) return ok(kName, "none here");
  const Section found = cuda();
  const auto entry = [&](const char* name) {
    return *std::find_if(found.entries.begin(), found.entries.end(), [=](const Entry& e) { return e.name == name; });
  };
  if (const Entry driver = entry("driver"); driver.value == "none") {
    return warning(
        kName, "there is one, but no driver that programs can use",
        "Calls with buffers on the device fail: " + driver.remark + ".",
        container_engine().empty() ? "nvidia-smi        says what the driver lacks" : "docker run --gpus all ..");
  }
  if (const Entry kernels = entry("kernels"); kernels.value != "found") {
    return warning(kName, "this build of Anello has no kernels for GPUs",
                   "Calls with buffers on the device reduce in host memory: " + kernels.remark + ".",
                   "anello-info        shows under \"build\" what was left out, and why");
  }
  const auto devices = std::count_if(found.entries.begin(), found.entries.end(),
                                     [](const Entry& each) { return each.name.rfind("device", 0) == 0; });
  if (devices > 0) return ok(kName, std::to_string(devices) + (devices == 1 ? " device" : " devices"));
  return warning(kName, "the driver shows none to this shell", "Calls with buffers on the device fail.",
                 "unset CUDA_VISIBLE_DEVICES        or docker run --gpus all ..");
}

Finding rdma() {
  const char* const kName = "RDMA";
  if (!has_rdma_adapter()) return ok(kName, "no adapter here");
  const Section ports = info::rdma();
  std::string usable;
  for (const Entry& entry : ports.entries) {
    if (entry.remark.empty()) usable += (usable.empty() ? "" : ", ") + entry.name;
  }
  if (!usable.empty()) return ok(kName, usable);
  const Entry& first = ports.entries.front();
  return warning(kName, first.name + ": " + first.value,
                 "Ranks on different hosts use TCP and not the adapter: " + first.remark + ".",
                 "rdma link        shows the adapters and their links");
}

}  // namespace info::doctor
