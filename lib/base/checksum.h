#pragma once
// CRC-32C (Castagnoli), as iSCSI and ext4 have it: by the processor's own instruction where there is one.
#include <cstddef>
#include <cstdint>

namespace anello {

// Of what came before (0: nothing) and these bytes together.
std::uint32_t crc32c(std::uint32_t before, const void* bytes, std::size_t count);

// The same without the instruction, for processors that lack it, and for tests.
std::uint32_t crc32c_by_table(std::uint32_t before, const void* bytes, std::size_t count);

}  // namespace anello
