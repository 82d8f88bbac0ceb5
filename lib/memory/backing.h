#pragma once
// Pages behind a memfd.
#include <cstddef>
#include <cstdint>

namespace anello::memory {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

inline std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Maps a range of a file for this process to load and store, at `place` over what is there, or where the kernel likes
// (if it gives shared memory huge pages, where these can be mapped). Null: no room; errno says why.
std::byte* map_pages(int file, std::uint64_t offset, std::size_t bytes, void* place = nullptr);

// Backs a range with pages now, so that a full machine is an error here and not a SIGBUS later. False: none were to be
// had, and the range has none. A memfd has no limit of its own: the kernel would rather kill processes than say no, so
// this does. mapped: where this process has the range. Its pages are made through that mapping, and so as has been
// advised of it, and are in its page tables. node: the NUMA node to which they are bound; -1: none.
bool back_with_pages(int file, std::uint64_t offset, std::size_t bytes, std::byte* mapped = nullptr, int node = -1);
// Gives them back, for all who have the range mapped: it reads as zeros from then on.
void give_pages_back(int file, std::uint64_t offset, std::size_t bytes);

// Fills the page tables, which else cost a fault a page at first touch. Kernels before 5.14 leave it to that.
void populate(std::byte* at, std::size_t bytes);

}  // namespace anello::memory
