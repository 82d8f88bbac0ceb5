#include "communicator/window.h"

#include "base/file_limit.h"
#include "base/text.h"

#include <new>

namespace anello {

std::shared_ptr<Window> Window::create(std::shared_ptr<Communicator> communicator, void* memory, std::size_t bytes) {
  std::shared_ptr<Window> window(new Window);
  window->communicator_ = std::move(communicator);
  Communicator& comm = *window->communicator_;
  const auto size = std::size_t(comm.size());
  window->peers_.resize(size);
  window->parts_.resize(size);
  const memory::Arena& arena = comm.context().job().arena();
  std::uint64_t offset = 0;
  if (memory != nullptr) {
    window->own_ = static_cast<std::byte*>(memory);
    offset = memory::Extent::mapped_at(arena, memory, bytes).offset();
  } else if (bytes > 0 && arena) {
    window->extent_ = memory::Extent::allocate(arena, bytes);
    window->mapping_ = window->extent_.map();
    window->own_ = window->mapping_.data();
    offset = window->extent_.offset();
  } else if (bytes > 0) {
    window->private_memory_.reset(new (std::nothrow) std::byte[bytes]());
    window->own_ = window->private_memory_.get();
  }
  Lack lack = Lack::none;
  if (bytes > 0 && window->own_ == nullptr) {
    lack = arena && !file_limit_forbids(arena.layout().bytes() + bytes).empty() ? Lack::file_limit : Lack::memory;
  }
  window->parts_[std::size_t(comm.rank())] = {reinterpret_cast<std::uintptr_t>(window->own_), offset, bytes,
                                              static_cast<std::uint64_t>(lack)};
  anello_call_t gather = ANELLO_CALL_INITIALIZER;
  gather.kind = ANELLO_ALLGATHER;
  gather.sendbuf = ANELLO_IN_PLACE;
  gather.recvbuf = window->parts_.data();
  gather.count = sizeof(Said) / sizeof(std::uint64_t);
  gather.dtype = ANELLO_UINT64;
  if (const Error error = comm.run(gather, nullptr, control::kWindowCreateCall)) throw error;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Said& said = window->parts_[std::size_t(rank)];
    if (said.lack == static_cast<std::uint64_t>(Lack::none)) continue;
    const bool limited = said.lack == static_cast<std::uint64_t>(Lack::file_limit);
    throw Error(ANELLO_ERR_RESOURCE,
                text("rank ", rank, " has no ", said.bytes, " bytes of memory for its part of the window",
                     limited ? ": raise its limit on the size of files (ulimit -f)" : ""));
  }
  return window;
}

Window::~Window() { extent_.give_back(); }

Error Window::close() {
  anello_call_t barrier = ANELLO_CALL_INITIALIZER;
  return communicator_->run(barrier, nullptr, control::kWindowFreeCall);
}

Window::Part Window::part(int rank) {
  const Said& said = parts_[std::size_t(rank)];
  if (rank == communicator_->rank()) return own();
  const control::Member& member = communicator_->member(rank);
  const control::Member& self = communicator_->member(communicator_->rank());
  if (said.bytes == 0) return {nullptr, 0};
  if (member.process == self.process) return {reinterpret_cast<std::byte*>(said.address), said.bytes};
  if (said.offset == 0 || member.local_index < 0 || member.machine != self.machine) return {nullptr, said.bytes};
  const std::lock_guard held(mutex_);
  memory::ExtentMapping& mapping = peers_[std::size_t(rank)];
  if (!mapping)
    mapping = memory::Extent::of_peer(communicator_->context().job().arena(), said.offset, said.bytes).map();
  if (!mapping) {
    throw Error(ANELLO_ERR_RESOURCE,
                text("the ", said.bytes, " bytes of rank ", rank, "'s part cannot be mapped here"));
  }
  return {mapping.data(), said.bytes};
}

}  // namespace anello
