#include "gradient_sync/element_copy.h"

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "base/float16.h"

#include <cstring>
#include <type_traits>

// The same source is compiled for each instruction set, so that results do not depend on the machine (no contraction:
// meson.build). Sanitizers would instrument the selecting function, which runs before they are ready.
#if defined(__x86_64__) && !defined(ANELLO_SANITIZED)
#define ANELLO_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define ANELLO_CLONES
#endif

namespace anello::gradient_sync {
namespace {

ANELLO_INLINE float to_float(float value) { return value; }
ANELLO_INLINE void round_to(float& to, float value) { to = value; }
ANELLO_INLINE double to_float(double value) { return value; }
ANELLO_INLINE void round_to(double& to, double value) { to = value; }

ANELLO_INLINE std::uint32_t is_special(float value) {
  return (__builtin_bit_cast(std::uint32_t, value) & 0x7f800000u) == 0x7f800000u;
}
ANELLO_INLINE std::uint64_t is_special(double value) {
  return (__builtin_bit_cast(std::uint64_t, value) & 0x7ff0000000000000u) == 0x7ff0000000000000u;
}

// Checks before and after: float16 may overflow in rounding, and a factor of 0 may hide an infinity.
template <bool multiplied, class From, class To>
ANELLO_INLINE bool copy_loop(const From* from, To* to, std::size_t count, double factor) {
  using Wide = decltype(to_float(From{}));
  const Wide by = static_cast<Wide>(factor);
  decltype(is_special(Wide{})) special = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Wide value = to_float(from[i]);
    To rounded;
    round_to(rounded, multiplied ? value * by : value);
    to[i] = rounded;
    special |= is_special(value) | is_special(to_float(rounded));
  }
  return special == 0;
}

#define ANELLO_COPY(name, From, To)                                                                            \
  ANELLO_CLONES bool name(const void* from, void* to, std::size_t count, double factor) {                      \
    return factor == 1 ? copy_loop<false>(static_cast<const From*>(from), static_cast<To*>(to), count, 1)      \
                       : copy_loop<true>(static_cast<const From*>(from), static_cast<To*>(to), count, factor); \
  }
ANELLO_COPY(copy_float32, float, float)
ANELLO_COPY(copy_float64, double, double)
ANELLO_COPY(copy_float16, Float16, Float16)
ANELLO_COPY(copy_bfloat16, BFloat16, BFloat16)
ANELLO_COPY(float32_to_float16, float, Float16)
ANELLO_COPY(float32_to_bfloat16, float, BFloat16)
ANELLO_COPY(float16_to_float32, Float16, float)
ANELLO_COPY(bfloat16_to_float32, BFloat16, float)
#undef ANELLO_COPY

template <class To>
ANELLO_INLINE void feedback_loop(const float* from, float* residual, To* to, std::size_t count, float factor) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = from[i] * factor + residual[i];
    To rounded;
    round_to(rounded, value);
    to[i] = rounded;
    const float rest = value - to_float(rounded);
    residual[i] = is_special(rest) ? 0.0f : rest;
  }
}
ANELLO_CLONES void feedback_float16(const float* from, float* residual, Float16* to, std::size_t count, float factor) {
  feedback_loop(from, residual, to, count, factor);
}
ANELLO_CLONES void feedback_bfloat16(const float* from, float* residual, BFloat16* to, std::size_t count,
                                     float factor) {
  feedback_loop(from, residual, to, count, factor);
}

}  // namespace

bool copy_elements(const void* from, anello_dtype_t from_type, void* to, anello_dtype_t to_type, std::size_t count,
                   double factor, bool check) {
  if (from_type == to_type && factor == 1 && !check) {
    if (from != to && count > 0) std::memcpy(to, from, count * dtype_bytes(to_type));
    return true;
  }
  bool finite = true;
  if (from_type != to_type) {
    if (to_type == ANELLO_FLOAT16)
      finite = float32_to_float16(from, to, count, factor);
    else if (to_type == ANELLO_BFLOAT16)
      finite = float32_to_bfloat16(from, to, count, factor);
    else if (from_type == ANELLO_FLOAT16)
      finite = float16_to_float32(from, to, count, factor);
    else
      finite = bfloat16_to_float32(from, to, count, factor);
    return !check || finite;
  }
  switch (from_type) {
    case ANELLO_FLOAT32: finite = copy_float32(from, to, count, factor); break;
    case ANELLO_FLOAT64: finite = copy_float64(from, to, count, factor); break;
    case ANELLO_FLOAT16: finite = copy_float16(from, to, count, factor); break;
    case ANELLO_BFLOAT16: finite = copy_bfloat16(from, to, count, factor); break;
    case ANELLO_COMPLEX64: finite = copy_float32(from, to, 2 * count, factor); break;
    case ANELLO_COMPLEX128: finite = copy_float64(from, to, 2 * count, factor); break;
    default: throw Error(ANELLO_ERR_INTERNAL, text("gradients of ", dtype_name(from_type)));
  }
  return !check || finite;
}

void round_with_feedback(const float* from, float* residual, void* to, anello_dtype_t to_type, std::size_t count,
                         double factor) {
  if (to_type == ANELLO_FLOAT16) {
    feedback_float16(from, residual, static_cast<Float16*>(to), count, static_cast<float>(factor));
  } else {
    feedback_bfloat16(from, residual, static_cast<BFloat16*>(to), count, static_cast<float>(factor));
  }
}

}  // namespace anello::gradient_sync
