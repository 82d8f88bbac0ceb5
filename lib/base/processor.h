#pragma once
// Hints to the processor that C++ cannot express. None of them changes a program's results.

#include <cstdint>

namespace anello {

// A clock that costs no call, and is good for "a moment ago": it runs at about the processor's rate, or slower.
inline std::uint64_t processor_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

// For a pause between two polls of a line that another processor is about to write.
inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// This processor will soon store to that line: other processors give it up now, while this one has other work.
inline void claim_line(const void* line) {
#if defined(__x86_64__)
  // This is not __builtin_prefetch, which requests a line for reading if the target processor may lack the instruction.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// This processor will soon load that line.
inline void ask_for_line(const void* line) { __builtin_prefetch(line); }

}  // namespace anello
