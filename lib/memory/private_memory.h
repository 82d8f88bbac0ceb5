#pragma once
// What kind of memory a range of addresses is, by the kernel's account of this process.
#include <cstddef>
#include <string>

namespace anello::memory {

// Why others would notice if the range got other pages: it is not all there, not writable, a file's, shared, or a
// stack. Empty: it is plain memory of this process alone.
std::string why_not_private(const void* address, std::size_t bytes);

}  // namespace anello::memory
