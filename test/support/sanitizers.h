#pragma once

// What this program was compiled with, for the tests that measure: shadow memory counts as resident, and freed blocks
// stay in AddressSanitizer's quarantine.

namespace anello::test {

#if defined(__SANITIZE_THREAD__)
constexpr int kMemoryFactor = 6;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kMemoryFactor = 3;
#else
constexpr int kMemoryFactor = 1;
#endif

}  // namespace anello::test
