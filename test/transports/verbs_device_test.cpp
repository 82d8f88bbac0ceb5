// Registrations of the fake device's memory, with a fake adapter: a table of libibverbs's functions. The case with the
// tag [adapter] needs the devices of tools/rdma-vm.
#include "base/log.h"
#include "kernels/cuda/driver.h"
#include "memory/buffer.h"
#include "support/catch.h"
#include "support/device_memory.h"
#include "transports/memory_conformance.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/registrations.h"
#include "transports/verbs/remote_memory.h"
#include "transports/verbs_lanes.h"

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace anello;
using namespace anello::test;
using namespace anello::transport;

namespace {

constexpr std::size_t kBytes = 100'000;

// What the fake adapter was asked for, and what it says.
struct Asked {
  struct Region {
    ibv_mr mr{};
    std::uint64_t offset = 0, address = 0;
    std::size_t bytes = 0;
    int access = 0;
    std::vector<std::byte> contents;  // of the dma-buf, there
  };
  std::vector<std::unique_ptr<Region>> regions;
  int ended = 0;
  int refusal = 0;  // an errno
};
Asked& asked() {
  static Asked all;
  return all;
}

ibv_mr* reg_dma_buf(ibv_pd*, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int file, int access) {
  Asked& all = asked();
  if (all.refusal != 0) {
    errno = all.refusal;
    return nullptr;
  }
  auto made = std::make_unique<Asked::Region>();
  made->offset = offset;
  made->address = address;
  made->bytes = bytes;
  made->access = access;
  made->contents.resize(bytes);
  if (::pread(file, made->contents.data(), bytes, off_t(offset)) != ssize_t(bytes)) return nullptr;
  made->mr.lkey = made->mr.rkey = std::uint32_t(all.regions.size() + 1);
  all.regions.push_back(std::move(made));
  return &all.regions.back()->mr;
}

ibv_mr* reg_mr(ibv_pd*, void*, std::size_t, int) {
  static ibv_mr made{};
  return &made;
}

int dereg_mr(ibv_mr*) {
  ++asked().ended;
  return 0;
}

const VerbsLibrary& fake_library() {
  static const VerbsLibrary library = [] {
    VerbsLibrary made;
    made.reg_mr = reg_mr;
    made.dereg_mr = dereg_mr;
    made.reg_dma_buf = reg_dma_buf;
    return made;
  }();
  return library;
}

struct Fixture {
  explicit Fixture(std::int64_t most = -1, bool takes_devices = true, const VerbsLibrary& library = fake_library())
      : registrations(VerbsDomain{library, nullptr, "fake0 port 1", 1u << 30, nullptr}, most, takes_devices) {
    asked() = {};
  }
  ~Fixture() {
    set_device_attribute(kernels::cuda::kHasDmaBufs, 1);
    set_device_attribute(kernels::cuda::kStoresOrdered, kernels::cuda::kForTheOwner);
    fail_device_call("cuMemGetHandleForAddressRange", 0);
    fail_device_call("cuFlushGPUDirectRDMAWrites", 0);
    shift_allocations(0);
  }
  VerbsRegistrations::Held of(void* at, std::size_t bytes, VerbsAccess access = VerbsAccess::peers_load) {
    return registrations.of({static_cast<std::byte*>(at), bytes, {memory::Space::Kind::device, 0}, {}}, access);
  }
  VerbsRegistrations registrations;
};

}  // namespace

TEST_CASE("a device's allocation is registered once, as a whole, in order, at its own addresses") {
  Fixture its;
  shift_allocations(512);
  auto* const at = static_cast<std::byte*>(device_allocate(kBytes));
  std::vector<std::byte> data(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) data[i] = std::byte(i * 5);
  copy_to_device(at, data.data(), kBytes);
  const VerbsRegistrations::Held held = its.of(at + 1000, 2000);
  REQUIRE(held != nullptr);
  CHECK(held->begin() == reinterpret_cast<std::uintptr_t>(at));
  CHECK(held->bytes() == kBytes);
  CHECK(its.of(at, kBytes) == held);
  REQUIRE(asked().regions.size() == 1);
  const Asked::Region& region = *asked().regions.front();
  CHECK(region.offset == 512);
  CHECK(region.address == reinterpret_cast<std::uint64_t>(at));
  CHECK(region.bytes == kBytes);
  CHECK(region.access == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
  CHECK(region.contents == data);
  CHECK(held->local_key() == region.mr.lkey);
  CHECK(its.of(at, 1, VerbsAccess::peers_store) != held);
  CHECK(asked().regions.back()->access == (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE));
  device_free(at);
}

TEST_CASE("the registration of an allocation that has been freed ends before the next one is made") {
  Fixture its;
  void* const gone = device_allocate(kBytes);
  REQUIRE(its.of(gone, kBytes) != nullptr);
  device_free(gone);
  void* const next = device_allocate(kBytes);
  INFO("the fake device gives the same address again: " << (next == gone));
  const VerbsRegistrations::Held held = its.of(next, kBytes);
  REQUIRE(held != nullptr);
  CHECK(asked().ended == 1);
  CHECK(asked().regions.size() == 2);
  CHECK(its.registrations.registered_bytes() == kBytes);
  // A peer whose message is taken back reaches nothing any more.
  its.registrations.end(held->remote_key());
  CHECK(asked().ended == 2);
  CHECK(its.registrations.registered_bytes() == 0);
  device_free(next);
}

TEST_CASE("allocations of a device and regions make room for each other within the limit") {
  Fixture its(250'000);
  void* const one = device_allocate(kBytes);
  void* const two = device_allocate(kBytes);
  void* const large = device_allocate(300'000);
  CHECK(its.of(large, 1) == nullptr);
  VerbsRegistrations::Held held = its.of(one, kBytes);
  CHECK(its.of(two, kBytes) != nullptr);
  const auto region = testing::in_region(102'400);
  const memory::Buffer on_host = memory::Buffers().find(region.get(), 1);
  CHECK(its.registrations.of(on_host, VerbsAccess::peers_load) != nullptr);
  CHECK(asked().ended == 1);  // of the second, as the first is in use
  CHECK(its.of(one, kBytes) == held);
  CHECK(its.registrations.registered_bytes() == kBytes + 102'400);
  for (void* const each : {one, two, large}) device_free(each);
}

TEST_CASE("an adapter that has no room for an allocation gets it when another one has made room") {
  Fixture its;
  void* const one = device_allocate(kBytes);
  void* const two = device_allocate(kBytes);
  REQUIRE(its.of(one, kBytes) != nullptr);
  asked().refusal = ENOMEM;
  CHECK(its.of(two, kBytes) == nullptr);
  CHECK(asked().ended == 1);
  CHECK(its.registrations.registered_bytes() == 0);
  for (void* const each : {one, two}) device_free(each);
}

TEST_CASE("memory of devices that cannot be registered is staged, for a reason that the log has once") {
  static const VerbsLibrary old = [] {
    VerbsLibrary made = fake_library();
    made.reg_dma_buf = nullptr;
    return made;
  }();
  void* const at = device_allocate(kBytes);
  const auto why_not = [&](Fixture& its, void* buffer, std::size_t bytes) {
    std::vector<std::string> lines;
    log::set_sink([&](log::Level, const char* line) { lines.emplace_back(line); }, log::Level::info);
    for (int time = 0; time < 3; ++time) CHECK(its.of(buffer, bytes) == nullptr);
    log::set_sink({}, log::configured());
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines.front(), Catch::Contains("verbs stages messages in the memory of device 0: "));
    return lines.front();
  };
  SECTION("nobody has asked for it") {
    Fixture its(-1, false);
    CHECK_THAT(why_not(its, at, kBytes), Catch::Contains("ANELLO_VERBS_DMABUF"));
  }
  SECTION("libibverbs is too old") {
    Fixture its(-1, true, old);
    CHECK_THAT(why_not(its, at, kBytes), Catch::Contains("version 34"));
  }
  SECTION("the driver makes no dma-bufs") {
    Fixture its;
    set_device_attribute(kernels::cuda::kHasDmaBufs, 0);
    CHECK_THAT(why_not(its, at, kBytes), Catch::Contains("no dma-bufs"));
  }
  SECTION("the driver refuses this allocation, and is not asked again") {
    Fixture its;
    fail_device_call("cuMemGetHandleForAddressRange", 801);
    const int before = device_calls("cuMemGetHandleForAddressRange");
    CHECK_THAT(why_not(its, at, kBytes), Catch::Contains("cuMemGetHandleForAddressRange"));
    CHECK(device_calls("cuMemGetHandleForAddressRange") == before + 1);
  }
  SECTION("the adapter has none") {
    Fixture its;
    asked().refusal = EOPNOTSUPP;
    CHECK_THAT(why_not(its, at, kBytes), Catch::Contains("ibv_reg_dmabuf_mr") && Catch::Contains("fake0 port 1"));
  }
  SECTION("it is in two mappings") {
    Fixture its;
    MappedMemory mapped(2, true);
    CHECK_THAT(why_not(its, mapped.data(), mapped.bytes()), Catch::Contains("several allocations"));
    CHECK(its.of(mapped.data(), MappedMemory::kPiece) != nullptr);
  }
  device_free(at);
}

TEST_CASE("a transfer into a device's memory is over once the device sees it, and fails if it cannot") {
  Fixture its;
  void* const at = device_allocate(kBytes);
  const VerbsRegistrations::Held held = its.of(at, kBytes);
  REQUIRE(held != nullptr);
  const int before = device_calls("cuFlushGPUDirectRDMAWrites");
  CHECK(held->stores_are_seen() == 0);
  CHECK(device_calls("cuFlushGPUDirectRDMAWrites") == before);
  set_device_attribute(kernels::cuda::kStoresOrdered, 0);
  CHECK(held->stores_are_seen() == 0);
  CHECK(device_calls("cuFlushGPUDirectRDMAWrites") == before + 1);
  fail_device_call("cuFlushGPUDirectRDMAWrites", 700);
  CHECK(held->stores_are_seen() == EIO);
  device_free(at);
}

namespace {

// The software adapters register no dma-bufs: the pages of the fake device's, mapped by this process, stand for one, at
// the device's addresses, which no code of the host can load or store.
ibv_mr* map_and_register(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int file,
                         int access) {
  void* const at = ::mmap(nullptr, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return nullptr;
  return verbs_library().reg_mr_with_hints(domain, static_cast<std::byte*>(at) + offset, bytes, address,
                                           unsigned(access));
}

VerbsDomain with_dma_bufs(const std::shared_ptr<VerbsPort>& port) {
  static const VerbsLibrary library = [] {
    VerbsLibrary made = verbs_library();
    made.reg_dma_buf = map_and_register;
    return made;
  }();
  const VerbsDomain real = VerbsDomain::of(port);
  return {library, real.domain, real.name, real.region_bytes, real.kept};
}

VerbsSettings asking(const char* device) {
  VerbsSettings settings = testing::on(device);
  settings.dma_buf = true;
  return settings;
}

}  // namespace

TEST_CASE("an adapter gets what lies in a device's memory into another one's", "[adapter]") {
  const auto port = VerbsPort::open(asking("rxe0")), other = VerbsPort::open(asking("rxe1"));
  VerbsRemoteMemory memory({port}, with_dma_bufs(port)), theirs({other}, with_dma_bufs(other));
  auto sockets = testing::connected(false);
  VerbsEndpoint end(1, memory, std::move(sockets.first)), peer(0, theirs, std::move(sockets.second));
  testing::meet(end, peer);
  constexpr std::size_t bytes = 5 * VerbsTransferRail::kMostPieceBytes + 1;
  const memory::Space space{memory::Space::Kind::device, 0};
  shift_allocations(512);
  auto* const from = static_cast<std::byte*>(device_allocate(bytes));
  auto* const into = static_cast<std::byte*>(device_allocate(bytes));
  shift_allocations(0);
  std::vector<std::byte> data(bytes), got(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = std::byte(i * 31 >> 3);
  copy_to_device(from, data.data(), bytes);
  std::shared_ptr<const void> kept;
  const RemoteAddress at = theirs.give_out({0, -1}, {from, bytes, space, {}}, RemoteMemory::Use::gets, &kept);
  REQUIRE(bool(at));
  memory.get({{1, -1}, at, into, bytes, 7, space});
  std::optional<Transferred> ended;
  for (const Deadline limit = Deadline::in_ms(20'000); !ended && !limit.passed(); ::sched_yield()) {
    peer.incoming();
    end.incoming();
    ended = memory.poll();
  }
  REQUIRE(ended.has_value());
  CHECK(ended->error == 0);
  copy_to_host(got.data(), into, bytes);
  CHECK(got == data);
  CHECK(end.transfers().counts().bytes_read == bytes);
  for (void* const each : {from, into}) device_free(each);
}
