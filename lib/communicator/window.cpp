#include "communicator/window.h"

#include "base/file_limit.h"
#include "base/log.h"
#include "base/text.h"
#include "memory/region.h"

#include <new>

namespace anello {

Window::Lack Window::find_own(void* memory, std::size_t bytes) {
  if (memory != nullptr) {
    own_ = static_cast<std::byte*>(memory);
  } else if (bytes > 0 && communicator_->context().job().arena()) {
    try {
      own_ = made_ = memory::make_region(bytes);
    } catch (const Error& error) {
      log::info(communicator_->rank(), "no memory for a part of a window: ", error.text());
      return file_limit_forbids(bytes).empty() ? Lack::memory : Lack::file_limit;
    } catch (const std::bad_alloc&) {
      return Lack::memory;
    }
  } else if (bytes > 0) {
    private_memory_.reset(new (std::nothrow) std::byte[bytes]());
    own_ = private_memory_.get();
    if (own_ == nullptr) return Lack::memory;
  }
  Said& own = parts_[std::size_t(communicator_->rank())];
  own.at.address = reinterpret_cast<std::uintptr_t>(own_);
  if (bytes == 0) return Lack::none;
  const memory::RegionSpot spot = memory::keep_in_place(own_, bytes);
  key_ = own.at.key = spot.region;
  own.at.offset = spot.offset;
  return Lack::none;
}

std::shared_ptr<Window> Window::create(std::shared_ptr<Communicator> communicator, void* memory, std::size_t bytes) {
  std::shared_ptr<Window> window(new Window);
  window->communicator_ = std::move(communicator);
  Communicator& comm = *window->communicator_;
  const auto size = std::size_t(comm.size());
  window->peers_.resize(size);
  window->parts_.resize(size);
  Said& own = window->parts_[std::size_t(comm.rank())];
  own.bytes = bytes;
  own.lack = static_cast<std::uint64_t>(window->find_own(memory, bytes));
  anello_call_t gather = ANELLO_CALL_INITIALIZER;
  gather.kind = ANELLO_ALLGATHER;
  gather.sendbuf = ANELLO_IN_PLACE;
  gather.recvbuf = window->parts_.data();
  gather.count = sizeof(Said) / sizeof(std::uint64_t);
  gather.dtype = ANELLO_UINT64;
  if (const Error error = comm.run(gather, nullptr, recorder::kWindowCreateCall)) throw error;
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

Window::~Window() {
  if (key_ != 0) memory::let_move(key_);
  if (made_ != nullptr) memory::free_region(made_);
}

Error Window::close() {
  anello_call_t barrier = ANELLO_CALL_INITIALIZER;
  return communicator_->run(barrier, nullptr, recorder::kWindowFreeCall);
}

Window::Part Window::part(int rank) {
  const Said& said = parts_[std::size_t(rank)];
  if (rank == communicator_->rank()) return own();
  const control::Member& member = communicator_->member(rank);
  const control::Member& self = communicator_->member(communicator_->rank());
  if (said.bytes == 0) return {nullptr, 0};
  if (member.process == self.process) return {reinterpret_cast<std::byte*>(said.at.address), said.bytes};
  if (said.at.key == 0 || member.local_index < 0 || member.machine != self.machine) return {nullptr, said.bytes};
  Mapped& mapped = peers_[std::size_t(rank)];
  {
    const std::lock_guard held(mutex_);
    if (mapped.data != nullptr) return {mapped.data, said.bytes};
  }
  Mapped found;
  found.data = communicator_->context().map_now(member.rank, said.at, std::size_t(said.bytes), &found.kept);
  const std::lock_guard held(mutex_);
  // Another thread may have been first, at the same place.
  if (mapped.data == nullptr) mapped = std::move(found);
  return {mapped.data, said.bytes};
}

}  // namespace anello
