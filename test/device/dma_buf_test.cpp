// Dma-bufs of the fake device's memory: a file whose pages are those of the allocation.
#include "device/dma_buf.h"
#include "kernels/cuda/driver.h"
#include "support/catch.h"
#include "support/device_memory.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace anello;
using namespace anello::device;
using namespace anello::test;
using namespace anello::kernels::cuda;

namespace {

constexpr std::size_t kBytes = 10'000;

// In each process that runs them, the tests share the fake device.
struct Restored {
  ~Restored() {
    shift_allocations(0);
    set_device_attribute(kHasDmaBufs, 1);
    set_device_attribute(kStoresOrdered, kForTheOwner);
    set_device_attribute(kFlushOptions, kFlushFromHost);
    fail_device_call("cuMemGetHandleForAddressRange", 0);
    fail_device_call("cuFlushGPUDirectRDMAWrites", 0);
  }
};

}  // namespace

TEST_CASE("a dma-buf has the allocation at its offset, in whole pages, and is closed in programs that are run") {
  const Restored restored;
  const int shift = GENERATE(0, 512);
  CAPTURE(shift);
  shift_allocations(shift);
  void* const at = device_allocate(kBytes);
  std::vector<unsigned char> data(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<unsigned char>(i * 7);
  copy_to_device(at, data.data(), kBytes);
  const Device& device = Device::of(0);
  const Allocation its = allocation_of(device, at, kBytes);
  REQUIRE(its.start == reinterpret_cast<std::uint64_t>(at));
  const DmaBuf made = dma_buf_of(device, its);
  CHECK(made.offset == std::uint64_t(shift));
  CHECK((::fcntl(made.file.get(), F_GETFD) & FD_CLOEXEC) != 0);
  std::vector<unsigned char> read(kBytes);
  REQUIRE(::pread(made.file.get(), read.data(), kBytes, off_t(made.offset)) == ssize_t(kBytes));
  CHECK(read == data);
  device_free(at);
}

TEST_CASE("an allocation is known by its number, not by its address, and must hold all of a buffer") {
  const Device& device = Device::of(0);
  auto* const at = static_cast<std::byte*>(device_allocate(kBytes));
  const Allocation first = allocation_of(device, at + 100, kBytes - 100);
  CHECK(first.id != 0);
  CHECK(first.bytes == kBytes);
  CHECK(allocation_of(device, at + 100, kBytes - 99).id == 0);
  CHECK(is_there(device, first));
  device_free(at);
  CHECK_FALSE(is_there(device, first));
  std::byte host{};
  CHECK(allocation_of(device, &host, 1).id == 0);
  MappedMemory mapped(2, true);
  const Allocation piece = allocation_of(device, mapped.data() + MappedMemory::kPiece, MappedMemory::kPiece);
  CHECK(piece.bytes == MappedMemory::kPiece);
  CHECK(allocation_of(device, mapped.data() + MappedMemory::kPiece - 1, 2).id == 0);
  mapped.replace(1);
  CHECK_FALSE(is_there(device, piece));
}

TEST_CASE("a device says why adapters cannot use its memory") {
  const Restored restored;
  const Device& device = Device::of(0);
  CHECK(why_no_dma_bufs(device).empty());
  set_device_attribute(kHasDmaBufs, 0);
  CHECK_THAT(why_no_dma_bufs(device), Catch::Contains("no dma-bufs of device 0"));
  set_device_attribute(kHasDmaBufs, 1);
  set_device_attribute(kStoresOrdered, 0);
  CHECK(why_no_dma_bufs(device).empty());
  set_device_attribute(kFlushOptions, 0);
  CHECK_THAT(why_no_dma_bufs(device), Catch::Contains("at no known time"));
}

TEST_CASE("what adapters have stored is flushed for devices that do not order it, and only for those") {
  const Restored restored;
  const Device& device = Device::of(0);
  const int before = device_calls("cuFlushGPUDirectRDMAWrites");
  stores_are_seen(device);
  CHECK(device_calls("cuFlushGPUDirectRDMAWrites") == before);
  set_device_attribute(kStoresOrdered, 0);
  stores_are_seen(device);
  CHECK(device_calls("cuFlushGPUDirectRDMAWrites") == before + 1);
  fail_device_call("cuFlushGPUDirectRDMAWrites", 700);
  CHECK_THROWS_AS(stores_are_seen(device), Error);
}

TEST_CASE("a driver that makes no dma-buf after all is quoted") {
  const Restored restored;
  void* const at = device_allocate(kBytes);
  const Allocation its = allocation_of(Device::of(0), at, kBytes);
  fail_device_call("cuMemGetHandleForAddressRange", 801);
  try {
    dma_buf_of(Device::of(0), its);
    FAIL("it made one");
  } catch (const Error& error) {
    CHECK_THAT(error.text(), Catch::Contains("cuMemGetHandleForAddressRange") && Catch::Contains("801"));
  }
  device_free(at);
}
