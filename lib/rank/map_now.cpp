// Context: maps a peer's memory outside all calls, for a caller that wants a pointer to it.
#include "base/clock.h"
#include "base/text.h"
#include "rank/context.h"

namespace anello::executor {
namespace {

// Control gives up on an answer after 10 s.
constexpr std::int64_t kMostMs = 15'000;

}  // namespace

std::byte* Context::map_now(int world, const transport::RemoteAddress& at, std::size_t bytes,
                            std::shared_ptr<const void>* kept) {
  using State = transport::RemoteMemory::State;
  class WaitForKey final : public progress::Wait {
   public:
    WaitForKey(Context& context, transport::RemoteMemory& memory, const transport::RemotePeer& peer, std::uint64_t key)
        : context_(context), memory_(memory), peer_(peer), key_(key) {}
    bool is_over() const override { return state() != State::asked || limit_.passed(); }
    void tick() override { context_.supervision_.tick({}); }
    State state() const { return memory_.prepare(peer_, key_); }

   private:
    Context& context_;
    transport::RemoteMemory& memory_;
    const transport::RemotePeer peer_;
    const std::uint64_t key_;
    const Deadline limit_ = Deadline::in_ms(kMostMs);
  };

  Lock held = lock();
  transport::RemoteMemory* const memory = routes_.memory_of(world);
  if (memory == nullptr || at.key == 0) return nullptr;
  const transport::RemotePeer peer{world, job_->members()[std::size_t(world)].local_index};
  WaitForKey wait(*this, *memory, peer, at.key);
  driver_.wait(held, wait);
  std::byte* const mapped = wait.state() == State::ready ? memory->map(peer, at, bytes, kept) : nullptr;
  if (mapped == nullptr) {
    throw Error(ANELLO_ERR_RESOURCE, text(bytes, " bytes of ", job_->describe(world), " cannot be mapped here"));
  }
  return mapped;
}

}  // namespace anello::executor
