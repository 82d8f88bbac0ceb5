#pragma once
// Memory of each rank of a communicator that ranks of the same host reach through their own pointers.
#include "communicator/communicator.h"
#include "memory/extent.h"

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
    std::uint64_t address;  // in its own process
    std::uint64_t offset;   // in the arena's file; 0: not in it
    std::uint64_t bytes;
    std::uint64_t lack;  // why it has no memory, as a Lack
  };
  static_assert(sizeof(Said) == 4 * sizeof(std::uint64_t));

  Window() = default;

  std::shared_ptr<Communicator> communicator_;
  std::vector<Said> parts_;
  std::byte* own_ = nullptr;
  memory::Extent extent_;  // made here
  memory::ExtentMapping mapping_;
  std::unique_ptr<std::byte[]> private_memory_;  // if no ranks share memory
  std::mutex mutex_;
  std::vector<memory::ExtentMapping> peers_;
};

}  // namespace anello
