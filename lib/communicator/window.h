#pragma once
// Memory of each rank of a communicator that ranks of the same host reach through their own pointers: a region, like
// memory of anello_mem_alloc, which stays in place as long as it is part of a window (memory/region.h).
#include "communicator/communicator.h"
#include "transports/remote_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace anello {

class Window {
 public:
  // Collective. memory: the caller's own; nullptr: allocate it. Throws Error, on all ranks if one has no memory.
  static std::shared_ptr<Window> create(std::shared_ptr<Communicator> communicator, void* memory, std::size_t bytes);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Collective: once it has returned on any rank, no rank uses its pointers any more. The object's destructor frees the
  // memory.
  Error close();

  struct Part {
    std::byte* data;  // nullptr: not mapped here
    std::size_t bytes;
  };
  Part own() const { return {own_, parts_[std::size_t(communicator_->rank())].bytes}; }
  // The part is mapped at the first request. Throws Error if the mapping fails.
  Part part(int rank);
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  enum class Lack : std::uint64_t { none = 0, memory = 1, file_limit = 2 };
  // The description of its part that a rank sends to the others.
  struct Said {
    transport::RemoteAddress at;
    std::uint64_t bytes;
    std::uint64_t lack;  // why it has no memory, as a Lack
  };
  static_assert(sizeof(Said) == 5 * sizeof(std::uint64_t));

  Window() = default;
  // Makes this rank's part where it is to be made, and says what others need to reach it.
  Lack find_own(void* memory, std::size_t bytes);

  std::shared_ptr<Communicator> communicator_;
  std::vector<Said> parts_;
  std::byte* own_ = nullptr;
  std::byte* made_ = nullptr;                    // the region that was made for it
  std::uint64_t key_ = 0;                        // of the region that its part lies in; 0: in none
  std::unique_ptr<std::byte[]> private_memory_;  // if no ranks share memory
  std::mutex mutex_;
  struct Mapped {
    std::byte* data = nullptr;
    std::shared_ptr<const void> kept;
  };
  std::vector<Mapped> peers_;
};

}  // namespace anello
