#include "gpu/check.h"
#include "gpu/rows.h"

#include <cstdio>

namespace gpu {
namespace {

struct Attribute {
  int number;
  const char* name;
  int needed;  // -1: any value
};
// The CUdevice_attributes that Anello's transports will query.
constexpr Attribute kAttributes[] = {
    {16, "multiprocessors", -1},
    {38, "L2 cache, bytes", -1},
    {20, "compute mode", 0},  // DEFAULT
    {98, "flush of remote writes", -1},
    {102, "virtual memory management", 1},
    {103, "memory by file descriptor", 1},
    {110, "GPUDirect RDMA with VMM", -1},
    {116, "GPUDirect RDMA", -1},
    {119, "memory pool handle types", -1},
    {122, "stream memory operations of 64 bits", 1},
    {124, "dma-buf", -1},
    {125, "IPC events", 1},
    {128, "fabric handles", -1},
    {132, "multicast", -1},
    {133, "MPS", -1},
};

}  // namespace

void inventory(Device& device) {
  const Driver& driver = device.driver();
  int version = 0;
  device.check("cuDriverGetVersion", driver.driver_version(&version));
  write({"device", Verdict::report, device.name(), "", ""});
  write({"driver supports CUDA", Verdict::report,
         std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10), "", ""});
  write({"compute capability", Verdict::report,
         std::to_string(device.attribute(anello::kernels::cuda::kCapabilityMajor)) + "." +
             std::to_string(device.attribute(anello::kernels::cuda::kCapabilityMinor)),
         "", ""});
  unsigned char uuid[16];
  device.check("cuDeviceGetUuid", driver.device_uuid(uuid, 0));
  std::string text;
  for (const unsigned char byte : uuid) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  write({"UUID", Verdict::report, text, "", ""});
  std::size_t free = 0, total = 0;
  device.check("cuMemGetInfo", driver.memory_info(&free, &total));
  write(reported("memory, free", static_cast<double>(free) / (1 << 30), "GiB"));
  for (const Attribute& attribute : kAttributes) {
    int value = 0;
    const std::string name = std::string(attribute.name) + " (" + std::to_string(attribute.number) + ")";
    if (const int code = driver.device_attribute(&value, attribute.number, 0); code != 0) {
      write({name, attribute.needed < 0 ? Verdict::skip : Verdict::fail, "", "", "the driver does not know it"});
      continue;
    }
    const bool wanted = attribute.needed < 0 || value == attribute.needed;
    write({name,
           attribute.needed < 0 ? Verdict::report
           : wanted             ? Verdict::pass
                                : Verdict::fail,
           std::to_string(value), attribute.needed < 0 ? "" : "= " + std::to_string(attribute.needed), ""});
  }
}

}  // namespace gpu
