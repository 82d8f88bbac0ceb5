#pragma once
// Finds out what kind of memory a range of addresses is, from the kernel's list of mappings.
#include <cstddef>
#include <string>

namespace anello::memory {

// Says why others would notice if the range got other pages: it is not all mapped, not writable, a file's, shared, or a
// stack. Empty if it is plain memory of this process alone.
std::string why_not_private(const void* address, std::size_t bytes);

}  // namespace anello::memory
