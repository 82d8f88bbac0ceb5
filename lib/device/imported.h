#pragma once
// An allocation of another process's that this process has opened on one of its devices, once for all its ranks.
#include "device/exported.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace anello::device {

class Imported {
 public:
  // Allocations of that process that were at the same addresses, and so have been freed, are closed first. Throws
  // Error: it cannot be opened.
  static std::shared_ptr<Imported> open(Device& device, std::uint64_t key, const ExportRecord& record);
  ~Imported();
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  // Null: it has been closed, as its owner has freed it.
  std::byte* data() const;
  std::size_t bytes() const { return bytes_; }

 private:
  Imported(Device& device, const ExportRecord& record);
  void leave() noexcept;

  Device& device_;
  const std::uint64_t process_;
  const std::uint64_t start_;
  const std::size_t bytes_;
  std::uint64_t at_ = 0;
};

// The allocations that are open.
std::size_t imports_open();

}  // namespace anello::device
