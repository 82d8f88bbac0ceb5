#pragma once
// Hints to the processor that C++ has no words for. None changes what a program does.

namespace anello {

// Between two looks at a line that another processor is about to write.
inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// This processor stores to that line soon: whoever else has it gives it up now, while there is other work here.
inline void claim_line(const void* line) {
#if defined(__x86_64__)
  // Not __builtin_prefetch, which for a processor that may lack the instruction asks for a line to read.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// This processor loads that line soon.
inline void ask_for_line(const void* line) { __builtin_prefetch(line); }

}  // namespace anello
