#pragma once
// Zeroed pages for adapters. No child of this process gets a copy: a page that is shared for copying could move away
// from the adapter.
#include <cstddef>
#include <span>

namespace anello::transport {

class VerbsPages {
 public:
  // Throws Error.
  explicit VerbsPages(std::size_t bytes);
  ~VerbsPages();
  VerbsPages(const VerbsPages&) = delete;
  VerbsPages& operator=(const VerbsPages&) = delete;

  std::byte* data() const { return memory_.data(); }
  std::span<std::byte> memory() const { return memory_; }

 private:
  std::span<std::byte> memory_;
};

}  // namespace anello::transport
