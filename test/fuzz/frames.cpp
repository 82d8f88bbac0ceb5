// Frames of a peer that says what it likes, at a rank that is in the middle of an all-reduce, of receives and of sends.
#include "executor/rank_thread.h"
#include "executor/scripted_lane.h"
#include "base/log.h"
#include "fuzz/input.h"

#include <cstdlib>

using namespace anello;
using namespace anello::executor;
using namespace anello::test;

namespace {

constexpr std::size_t kCount = 256;

ScriptedFrame frame_of(fuzz::Input& input, std::uint64_t digest) {
  ScriptedFrame frame;
  transport::FrameHeader& header = frame.header;
  const auto often = [&](auto likely) {
    return input.below(4) != 0 ? likely : static_cast<decltype(likely)>(input.take<std::uint64_t>());
  };
  header.kind = static_cast<std::uint16_t>(input.below(8) != 0 ? 1 + input.below(9) : input.take<std::uint16_t>());
  header.communicator = often(std::uint64_t(1 + input.below(3)));
  header.digest = often(digest);
  header.sequence = often(std::uint32_t(input.below(4)));
  const bool steps = header.kind == static_cast<std::uint16_t>(FrameKind::step);
  const std::size_t half = kCount / 2 * sizeof(float);
  header.tag = often(std::uint32_t(steps ? half : std::size_t(input.below(3))));
  header.flags = often(std::uint16_t(steps ? 0 : ANELLO_BYTE));
  header.argument = often(std::uint64_t(input.below(3)));
  const std::size_t likely = steps ? half : std::size_t(input.below(100));
  header.bytes = static_cast<std::uint32_t>(
      input.below(4) != 0 ? likely : input.take<std::uint32_t>() % (transport::kMaxFrameBytes + 1));
  frame.payload.resize(header.bytes);
  return frame;
}

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
  RankThread me(jobs, 0, transport::bit_of("shm"),
                [&](const memory::Arena&, int) { return std::make_unique<ScriptedTransport>(script); });
  std::vector<float> data(kCount);
  std::vector<std::byte> messages(6 * 4096);
  std::vector<Operation*> posted{me.allreduce(data.data(), kCount, "ring", kCount)};
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
    script->push_back(frame_of(input, digest));
    if (input.below(2) == 0) me.context().test(*posted[0]);
  }
  for (int i = 0; i < 3; ++i) me.context().test(*posted[0]);
  const auto other = me.add_group(2, 2, -1, 0);
  for (int i = 0; i < 2; ++i) me.context().test(*posted[0]);
  me.context().abort(*other, Error(ANELLO_ERR_ABORTED, "over"));
  me.context().remove_group(*other);
  me.context().abort(me.group(), Error(ANELLO_ERR_ABORTED, "over"));
  for (Operation* const operation : posted) me.finish(operation);
  return 0;
}
