#pragma once
// A range of the arena's file behind the arena itself, for staging memory. That is nobody's alone: it belongs to the
// ranks of the host that use a board, and stays theirs when the process whose rank found it has ended. So it is no
// region of a process's pool (region.h). Ranges are given out once; what is given back leaves a hole without pages.
#include "memory/arena.h"

#include <cstddef>
#include <cstdint>

namespace anello::memory {

// A range in this process's address space. Not inherited by forked children.
class ExtentMapping {
 public:
  ExtentMapping() = default;
  ExtentMapping(ExtentMapping&& other) noexcept;
  ExtentMapping& operator=(ExtentMapping&& other) noexcept;
  ~ExtentMapping();

  std::byte* data() const { return data_; }  // of the range's first byte
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend class Extent;
  std::byte* base_ = nullptr;  // of whole pages
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
};

class Extent {
 public:
  Extent() = default;
  // Without pages yet: each rank backs its part. Offset 0: there is no memory, or no file behind the arena.
  static Extent reserve(const Arena& arena, std::size_t bytes);
  // What another rank said it has. Offset 0 when the file has no such range.
  static Extent of_peer(const Arena& arena, std::uint64_t offset, std::size_t bytes);

  std::uint64_t offset() const { return offset_; }
  ExtentMapping map() const;  // empty where there is no room for it
  // Backs a part of what is mapped here with pages, made by this process and so near it. False: no memory.
  bool back(const ExtentMapping& mapping, std::size_t from, std::size_t bytes) const;
  void give_back() const;  // its pages, for all who have it mapped
  void give_back(std::size_t from, std::size_t bytes) const;

 private:
  Extent(const Arena& arena, std::uint64_t offset, std::size_t bytes);

  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace anello::memory
