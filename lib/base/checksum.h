#pragma once
// CRC-32C (Castagnoli), as in iSCSI and ext4. It uses the processor's instruction if there is one.
#include <cstddef>
#include <cstdint>

namespace anello {

// The checksum of the bytes so far (0: none) followed by these bytes.
std::uint32_t crc32c(std::uint32_t before, const void* bytes, std::size_t count);

// Computes it without the instruction, for processors that lack it, and for tests.
std::uint32_t crc32c_by_table(std::uint32_t before, const void* bytes, std::size_t count);

}  // namespace anello
