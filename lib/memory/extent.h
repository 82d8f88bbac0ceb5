#pragma once
// A range of the arena's file behind the arena itself, for staging memory. It has no single owner: it belongs to the
// ranks of the host that use a board, and stays theirs after the process that reserved it has ended. So it is not a
// region of a process's pool (region.h). A range is given out once; giving it back leaves a hole without pages.
#include "memory/arena.h"

#include <cstddef>
#include <cstdint>

namespace anello::memory {

// A range in this process's address space. Forked children do not inherit it.
class ExtentMapping {
 public:
  ExtentMapping() = default;
  ExtentMapping(ExtentMapping&& other) noexcept;
  ExtentMapping& operator=(ExtentMapping&& other) noexcept;
  ~ExtentMapping();

  std::byte* data() const { return data_; }  // the range's first byte
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class Extent;
  std::byte* base_ = nullptr;  // start of the first page
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
};

class Extent {
 public:
  Extent() = default;
  // The range has no pages yet: each rank backs its part. Offset 0 if there is no memory, or no file behind the arena.
  static Extent reserve(const Arena& arena, std::size_t bytes);
  // The range that another rank announced. Offset 0 if the file does not have it.
  static Extent of_peer(const Arena& arena, std::uint64_t offset, std::size_t bytes);

  std::uint64_t offset() const { return offset_; }
  ExtentMapping map() const;  // empty if there is no room for it
  // Backs a part of the mapping with pages; this process makes them, so they lie near it. False if there is no memory.
  bool back(const ExtentMapping& mapping, std::size_t from, std::size_t bytes) const;
  void give_back() const;  // its pages, for all processes that map it
  void give_back(std::size_t from, std::size_t bytes) const;

 private:
  Extent(const Arena& arena, std::uint64_t offset, std::size_t bytes);

  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace anello::memory
