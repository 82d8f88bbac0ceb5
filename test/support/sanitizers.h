#pragma once

// What this program was compiled with, for the tests that measure: shadow memory counts as resident, freed blocks stay
// in AddressSanitizer's quarantine, and each access of memory takes several times as long.

namespace anello::test {

#if defined(__SANITIZE_THREAD__)
constexpr int kMemoryFactor = 6, kTimeFactor = 4;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kMemoryFactor = 3, kTimeFactor = 2;
#else
constexpr int kMemoryFactor = 1, kTimeFactor = 1;
#endif

}  // namespace anello::test
