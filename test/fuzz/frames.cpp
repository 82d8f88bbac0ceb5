// Frames of a peer that says what it likes, at a rank that is in the middle of an all-reduce, of receives and of sends.
#include "executor/rank_thread.h"
#include "executor/scripted_lane.h"
#include "base/log.h"
#include "fuzz/input.h"
#include "memory/region.h"
#include "transports/adapter_memory.h"

#include <cerrno>
#include <cstdlib>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

namespace {

constexpr std::size_t kCount = 256;
// Among ranks that share no board, as on two hosts: each message is so long that it is offered to be got.
constexpr std::size_t kFarCount = 50'000;
constexpr std::uint64_t kFar = 3;

ScriptedFrame frame_of(fuzz::Input& input, std::uint64_t digest, std::uint64_t far_digest) {
  ScriptedFrame frame;
  transport::FrameHeader& header = frame.header;
  const auto often = [&](auto likely) {
    return input.below(4) != 0 ? likely : static_cast<decltype(likely)>(input.take<std::uint64_t>());
  };
  header.kind = static_cast<std::uint16_t>(input.below(8) != 0 ? 1 + input.below(11) : input.take<std::uint16_t>());
  header.communicator = often(std::uint64_t(1 + input.below(3)));
  header.digest = often(header.communicator == kFar ? far_digest : digest);
  header.sequence = often(std::uint32_t(input.below(4)));
  const bool steps = is_of_step(static_cast<FrameKind>(header.kind));
  const std::size_t half = (header.communicator == kFar ? kFarCount : kCount) / 2 * sizeof(float);
  header.tag = often(std::uint32_t(steps ? half : std::size_t(input.below(3))));
  header.flags = often(std::uint16_t(steps ? 0 : ANELLO_BYTE));
  header.argument = often(std::uint64_t(input.below(3)));
  const std::size_t likely = is_step_rts(header) ? kAddressBytes : steps ? half : std::size_t(input.below(100));
  header.bytes = static_cast<std::uint32_t>(
      input.below(4) != 0 ? likely : input.take<std::uint32_t>() % (transport::kMaxFrameBytes + 1));
  frame.payload.resize(header.bytes);
  return frame;
}

// Of a peer on another host. Each get there fails.
class NoMemory final : public AdapterMemory {
 public:
  transport::RemoteAddress give_out(const transport::RemotePeer&, const memory::Buffer& buffer, Use,
                                    std::shared_ptr<const void>* kept) override {
    *kept = std::make_shared<int>(0);
    return {reinterpret_cast<std::uintptr_t>(buffer.at), 2, 0};
  }
  State prepare(const transport::RemotePeer&, std::uint64_t key) override {
    return key % 2 == 0 ? State::ready : State::refused;
  }
  void get(const transport::Transfer& transfer) override { ended_.push_back({transfer.token, EIO}); }
  std::optional<transport::Transferred> poll() override {
    if (ended_.empty()) return std::nullopt;
    const transport::Transferred last = ended_.back();
    ended_.pop_back();
    return last;
  }
  void withdraw(transport::Token token) override {
    std::erase_if(ended_, [token](const transport::Transferred& each) { return each.token == token; });
  }
  bool is_pending() const override { return !ended_.empty(); }

 private:
  std::vector<transport::Transferred> ended_;
};

Operation* post(RankThread& me, anello_kind_t kind, int tag, std::byte* buffer, std::size_t bytes) {
  Operation* const operation = me.context().acquire(me.group());
  operation->kind = kind;
  operation->dtype = ANELLO_BYTE;
  operation->count = bytes;
  operation->element_bytes = 1;
  operation->peer = 1;
  operation->tag = tag;
  operation->timeout_ns = 20'000'000'000;
  operation->input = operation->output = buffer;
  recorder::CallRecord record;
  me.context().post(*operation, record);
  return operation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  anello::log::set_sink({}, std::nullopt);
  fuzz::Input input(bytes, count);
  const auto script = std::make_shared<Script>();
  LocalJobs jobs(2, transport::bit_of("shm"));
  RankThread me(jobs, 0, transport::bit_of("shm"), [&](const memory::Arena&, int) {
    return std::make_unique<ScriptedTransport>(script, std::make_unique<NoMemory>());
  });
  std::vector<float> data(kCount);
  std::vector<std::byte> messages(6 * 4096);
  std::vector<Operation*> posted{me.allreduce(data.data(), kCount, "ring", kCount)};
  const auto apart = me.add_group(kFar, 2, -1, 0);
  std::byte* const region = memory::make_region(kFarCount * sizeof(float));
  posted.push_back(me.allreduce(reinterpret_cast<float*>(region), kFarCount, "ring", kFarCount, apart.get()));
  const std::uint64_t far_digest = posted[1]->digest;
  const std::uint64_t digest = posted[0]->digest;
  for (std::size_t i = 0; i < 2; ++i) {
    posted.push_back(post(me, ANELLO_RECV, int(i), messages.data() + i * 4096, 64));
    posted.push_back(post(me, ANELLO_SEND, int(i), messages.data() + (2 + i) * 4096, 4096));
  }
  // More than goes without asking: it waits for a grant.
  std::vector<std::byte> large(100'000);
  posted.push_back(post(me, ANELLO_SEND, 0, large.data(), large.size()));
  posted.push_back(post(me, ANELLO_RECV, ANELLO_ANY_TAG, large.data(), large.size()));
  for (int frames = 0; !input.done() && frames < 64; ++frames) {
    script->push_back(frame_of(input, digest, far_digest));
    if (input.below(2) == 0) me.context().test(*posted[0]);
  }
  for (int i = 0; i < 3; ++i) me.context().test(*posted[0]);
  const auto other = me.add_group(2, 2, -1, 0);
  for (int i = 0; i < 2; ++i) me.context().test(*posted[0]);
  me.context().abort(*other, Error(ANELLO_ERR_ABORTED, "over"));
  me.context().remove_group(*other);
  me.context().abort(*apart, Error(ANELLO_ERR_ABORTED, "over"));
  me.context().abort(me.group(), Error(ANELLO_ERR_ABORTED, "over"));
  for (Operation* const operation : posted) me.finish(operation);
  me.context().remove_group(*apart);
  memory::free_region(region);
  return 0;
}
