#pragma once
// The floating-point environment that kernels need.

#if !defined(__SSE__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace anello::kernels {

// While it lives, the calling thread computes with round-to-nearest, denormals and masked exceptions; the destructor
// restores the previous settings. It is inlined into its users: see reduce_loops.h.
class DefaultFloats {
 public:
  // Writing the register costs as much as a small reduction, so it is written only if its value differs.
  [[gnu::always_inline]] DefaultFloats() : saved_(read()) {
    if (differs()) write(kDefault);
  }
  [[gnu::always_inline]] ~DefaultFloats() {
    if (differs()) write(saved_);
  }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kDefault =
      0x1f80;  // all exceptions masked, to nearest, no flush-to-zero, no denormals-are-zero
  static constexpr unsigned kFlags = 0x003f;  // exceptions that have occurred: not a setting
  [[gnu::always_inline]] static unsigned read() { return __builtin_ia32_stmxcsr(); }
  [[gnu::always_inline]] static void write(unsigned setting) { __builtin_ia32_ldmxcsr(setting); }
#elif defined(__aarch64__)
  static constexpr unsigned kDefault = 0, kFlags = 0;  // reserved bits read as zero
  [[gnu::always_inline]] static unsigned read() { return __builtin_aarch64_get_fpcr(); }
  [[gnu::always_inline]] static void write(unsigned setting) { __builtin_aarch64_set_fpcr(setting); }
#else
  // The C++ standard covers the rounding mode but not flush-to-zero.
  static constexpr unsigned kDefault = FE_TONEAREST, kFlags = 0;
  static unsigned read() { return static_cast<unsigned>(std::fegetround()); }
  static void write(unsigned setting) { std::fesetround(static_cast<int>(setting)); }
#endif
  [[gnu::always_inline]] bool differs() const { return (saved_ & ~kFlags) != kDefault; }

  unsigned saved_;
};

}  // namespace anello::kernels
