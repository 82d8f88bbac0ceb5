// Messages between hosts out of and into the fake device's memory, which adapters reach or not.
#include "base/text.h"
#include "communicator/far_memory.h"
#include "communicator/shadowing.h"
#include "executor/rank_thread.h"
#include "memory/region.h"
#include "transports/shm/transport.h"
#include "transports/with_memory.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

extern "C" const char anello_in_place_marker = 0;  // the API's, which is not linked here

namespace {

constexpr std::size_t kBytes = 300'000;

// Of a rank: on the device, or in a region of the host.
class Place {
 public:
  Place(bool on_device, std::byte fill) : on_device_(on_device) {
    at_ = on_device ? static_cast<std::byte*>(device_allocate(kBytes)) : memory::make_region(kBytes);
    const std::vector<std::byte> all(kBytes, fill);
    on_device ? copy_to_device(at_, all.data(), kBytes) : void(std::memcpy(at_, all.data(), kBytes));
  }
  ~Place() { on_device_ ? device_free(at_) : void(memory::free_region(at_)); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::byte* data() const { return at_; }
  bool holds(std::byte fill, std::size_t bytes) const {
    std::vector<std::byte> all(kBytes);
    on_device_ ? copy_to_host(all.data(), at_, kBytes) : void(std::memcpy(all.data(), at_, kBytes));
    return std::all_of(all.begin(), all.begin() + std::ptrdiff_t(bytes), [&](std::byte b) { return b == fill; });
  }

 private:
  const bool on_device_;
  std::byte* at_;
};

// As the API posts it.
Operation* post(RankThread& me, Group& group, anello_kind_t kind, std::byte* buffer, std::size_t bytes) {
  anello_call_t call{};
  call.kind = kind;
  call.dtype = ANELLO_BYTE;
  call.count = bytes;
  call.peer = 1 - group.rank;
  if (kind == ANELLO_SEND) {
    call.sendbuf = buffer;
  } else {
    call.recvbuf = buffer;
  }
  Operation* const operation = me.context().acquire(group);
  operation->kind = kind;
  operation->dtype = ANELLO_BYTE;
  operation->peer = call.peer;
  operation->tag = 1;
  operation->input = kind == ANELLO_SEND ? buffer : nullptr;
  operation->output = kind == ANELLO_SEND ? nullptr : buffer;
  operation->count = bytes;
  operation->element_bytes = 1;
  operation->timeout_ns = 20'000'000'000;
  if (is_on_device(call)) {
    shadow_buffers(*operation, call, group.rank, 2, InPlace::no, nullptr);
    offer_or_shadow(*operation);
  }
  recorder::CallRecord record;
  me.context().post(*operation, record);
  return operation;
}

struct Outcome {
  std::string wrong;
  int given_on_device = 0, got_to_device = 0, got_to_host = 0;
  std::uint64_t on_devices[2] = {0, 0};
  std::uint64_t taken = 0;
  int got_while_held = 0;
};

// Rank 0 sends three messages, each after the other one has come. holds: the receiver's device does nothing until the
// message has been announced.
Outcome exchange(bool sender_on_device, bool receiver_on_device, FarFaults sender = {}, FarFaults receiver = {},
                 bool holds = false) {
  LocalJobs jobs(2, transport::bit_of("shm"), {}, LocalJobs::Memory::file);
  Outcome outcome;
  std::mutex mutex;
  FarMemory memories[2] = {FarMemory(sender), FarMemory(receiver)};
  std::atomic<int> there{0}, posted{0};
  on_ranks(2, [&](int rank) {
    RankThread me(jobs, rank, transport::bit_of("shm"), [&](const memory::Arena& arena, int own) {
      auto inner =
          transport::make_shm(arena, [&, own](int world, std::uint64_t key) { jobs.request_region(own, world, key); });
      return std::make_unique<TransportWithMemory>(std::move(inner), memories[own]);
    });
    const auto apart = me.add_group(2, 2, -1, 0);  // the ranks share no board, as on two hosts
    ++there;
    while (there < 2) std::this_thread::yield();
    for (int message = 1; message <= 3; ++message) {
      const auto fill = std::byte(message);
      const Place place(rank == 0 ? sender_on_device : receiver_on_device, rank == 0 ? fill : std::byte{0xee});
      const std::size_t bytes = kBytes - 1000;
      if (holds && rank == 1) hold_device(true);
      Operation* const operation =
          post(me, *apart, rank == 0 ? ANELLO_SEND : ANELLO_RECV, place.data(), rank == 0 ? bytes : kBytes);
      if (rank == 0) ++posted;
      if (holds && rank == 1) {
        while (posted < message) std::this_thread::yield();
        for (int turn = 0; turn < 1000; ++turn) me.context().progress_once();
        outcome.got_while_held += memories[1].got_to_device - (message - 1);
        hold_device(false);
      }
      const Error error = me.finish(operation);
      const std::lock_guard held(mutex);
      if (error) outcome.wrong += text("rank ", rank, ": ", error.text(), "; ");
      if (!place.holds(fill, bytes)) outcome.wrong += text("rank ", rank, ": message ", message, "; ");
    }
    const std::lock_guard held(mutex);
    outcome.on_devices[rank] = apart->on_devices;
    if (rank == 1) outcome.taken = apart->taken.rdma;
    me.context().remove_group(*apart);
  });
  outcome.given_on_device = memories[0].given_on_device;
  outcome.got_to_device = memories[1].got_to_device;
  outcome.got_to_host = memories[1].got_to_host;
  return outcome;
}

}  // namespace

TEST_CASE("a message between hosts goes from device to device by the adapters, and past the host") {
  const Outcome outcome = exchange(true, true);
  CHECK(outcome.wrong.empty());
  CHECK(outcome.given_on_device == 3);
  CHECK(outcome.got_to_device == 3);
  CHECK(outcome.taken == 3);
  CHECK(outcome.on_devices[0] == 3);
  CHECK(outcome.on_devices[1] == 3);
}

TEST_CASE("one of the two ends of a message may be on a device that adapters reach") {
  const Outcome out = exchange(true, false), in = exchange(false, true);
  CHECK((out.wrong + in.wrong).empty());
  CHECK(out.given_on_device == 3);
  CHECK(out.got_to_host == 3);
  CHECK(in.given_on_device == 0);
  CHECK(in.got_to_device == 3);
}

TEST_CASE("where adapters do not reach a device, host memory stands for its buffer") {
  FarFaults none;
  none.reaches_devices = false;
  const Outcome outcome = exchange(true, true, none, none);
  CHECK(outcome.wrong.empty());
  CHECK(outcome.given_on_device == 0);
  CHECK(outcome.got_to_host == 3);  // between regions of pinned memory
  CHECK(outcome.on_devices[0] + outcome.on_devices[1] == 0);
}

TEST_CASE("a message in device memory that cannot be given out after all, or got, comes through the host") {
  FarFaults refuses, fails;
  refuses.gives_out = false;
  fails.gets = false;
  const Outcome refused = exchange(true, true, refuses), failed = exchange(true, true, {}, fails);
  CHECK((refused.wrong + failed.wrong).empty());
  CHECK(refused.got_to_device == 0);
  CHECK(failed.got_to_device == 3);
  CHECK(refused.on_devices[1] + failed.on_devices[1] == 0);
  CHECK(failed.taken == 0);
}

TEST_CASE("a message is brought to a device after earlier work of its default stream") {
  const Outcome outcome = exchange(false, true, {}, {}, true);
  CHECK(outcome.wrong.empty());
  CHECK(outcome.got_while_held == 0);
  CHECK(outcome.got_to_device == 3);
}
