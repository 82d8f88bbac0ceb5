#pragma once
// Pages behind a memfd.
#include <cstddef>
#include <cstdint>

namespace anello::memory {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

inline std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Maps a range of a file for this process to load and store, at `place` over the old mapping, or where the kernel
// chooses (if it gives shared memory huge pages, where these can be mapped). Null if there is no room; errno says why.
std::byte* map_pages(int file, std::uint64_t offset, std::size_t bytes, void* place = nullptr);

// Backs a range with pages now, so that a full machine is an error here and not a SIGBUS later. False if there is no
// memory; the range then has no pages. A memfd has no limit of its own, and the kernel would kill processes rather than
// refuse, so this function refuses. mapped: where this process maps the range. The pages are made through that mapping,
// so they follow its advice and are in its page tables. node: the NUMA node to which they are bound, or -1.
bool back_with_pages(int file, std::uint64_t offset, std::size_t bytes, std::byte* mapped = nullptr, int node = -1);
// Gives pages back, for all processes that map the range: it reads as zeros from then on.
void give_pages_back(int file, std::uint64_t offset, std::size_t bytes);

// Fills the page tables, which otherwise cost one fault per page at first touch. Kernels before 5.14 do not do it.
void populate(std::byte* at, std::size_t bytes);

}  // namespace anello::memory
