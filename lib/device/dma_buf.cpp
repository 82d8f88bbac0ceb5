#include "device/dma_buf.h"

#include "base/text.h"

#include <fcntl.h>
#include <unistd.h>

namespace anello::device {
namespace {

using namespace kernels::cuda;

// Else work that is launched later could still load what was there before.
bool needs_flush(const Device& device) { return device.attribute(kStoresOrdered) < kForTheOwner; }

}  // namespace

std::string why_no_dma_bufs(const Device& device) {
  if (device.attribute(kHasDmaBufs) == 0)
    return text("the driver makes no dma-bufs of device ", device.number(),
                "'s memory (it takes NVIDIA's open kernel modules, and Linux 5.12)");
  if (needs_flush(device) && (device.attribute(kFlushOptions) & kFlushFromHost) == 0)
    return text("device ", device.number(), " sees what adapters store at no known time");
  return "";
}

Allocation allocation_of(const Device& device, const void* address, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const Allocation found = Allocation::at(device.driver(), at);
  const bool holds_all = found.id != 0 && at >= found.start && bytes <= found.bytes - (at - found.start);
  return holds_all ? found : Allocation{};
}

bool is_there(const Device& device, const Allocation& allocation) {
  return Allocation::at(device.driver(), allocation.start).id == allocation.id;
}

// The driver takes whole pages of the host's. A small allocation shares its first and last with others, which the
// offset keeps out.
DmaBuf dma_buf_of(const Device& device, const Allocation& allocation) {
  const auto page = std::uint64_t(::getpagesize());
  const std::uint64_t begin = allocation.start / page * page;
  const std::uint64_t end = (allocation.start + allocation.bytes + page - 1) / page * page;
  const Device::Use use(device);
  int file = -1;
  check(device.driver(), "cuMemGetHandleForAddressRange",
        device.driver().range_handle(&file, begin, end - begin, kDmaBuf, 0));
  ::fcntl(file, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(file), allocation.start - begin};
}

void stores_are_seen(const Device& device) {
  if (!needs_flush(device)) return;
  const Device::Use use(device);
  check(device.driver(), "cuFlushGPUDirectRDMAWrites",
        device.driver().flush_remote_stores(kCurrentContext, kForTheOwner));
}

}  // namespace anello::device
