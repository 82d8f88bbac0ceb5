#include "kernels/reduce.h"

#if !defined(__SSE__)
#include <cfenv>
#endif

namespace anello::kernels {

#if defined(__SSE__)
namespace {

constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, to nearest, no flush-to-zero, no denormals-are-zero
constexpr unsigned kFlags = 0x003f;    // exceptions that were seen: not a setting

}  // namespace

// Writing the register costs as much as a small reduction, so it is written only where it differs.
DefaultFloats::DefaultFloats() : saved_(__builtin_ia32_stmxcsr()) {
  if ((saved_ & ~kFlags) != kDefault) __builtin_ia32_ldmxcsr(kDefault);
}

DefaultFloats::~DefaultFloats() {
  if ((saved_ & ~kFlags) != kDefault) __builtin_ia32_ldmxcsr(saved_);
}
#elif defined(__aarch64__)
// FPCR is 0 by default. Its reserved bits read as zero.
DefaultFloats::DefaultFloats() : saved_(__builtin_aarch64_get_fpcr()) {
  if (saved_ != 0) __builtin_aarch64_set_fpcr(0);
}

DefaultFloats::~DefaultFloats() {
  if (saved_ != 0) __builtin_aarch64_set_fpcr(saved_);
}
#else
// The standard knows the rounding mode; flush-to-zero is beyond its reach.
DefaultFloats::DefaultFloats() : saved_(static_cast<unsigned>(std::fegetround())) {
  if (saved_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
}

DefaultFloats::~DefaultFloats() {
  if (saved_ != FE_TONEAREST) std::fesetround(static_cast<int>(saved_));
}
#endif

}  // namespace anello::kernels
