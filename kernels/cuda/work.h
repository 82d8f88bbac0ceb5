#pragma once
// The arithmetic of a kernel: load as Element, combine as Sum, store as Element. It is in an unnamed namespace, as
// reduce_loops.h explains.
#include "kernels/combine.h"
#include "kernels/cuda/convert.h"
#include "kernels/cuda/loads.h"
#include "kernels/cuda/pairs.h"

namespace anello::kernels::cuda {
namespace {

template <anello_dtype_t dtype>
struct Types;
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) \
  template <>                                                            \
  struct Types<enumerator> {                                             \
    using Storage = storage;                                             \
    using Accumulator = accumulator;                                     \
  };
#include "base/dtypes.def"
#undef ANELLO_DTYPE

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
requires requires { T::index; }
struct ElementOf<T> {
  using type = Located<decltype(T::value), sizeof(T)>;
};

// Neither product is fused with the addition (nvcc -fmad=false), so the result equals that of the host's loops.
template <class Complex>
ANELLO_INLINE Complex product(Complex left, Complex right) {
  const auto a = left.parts[0], b = left.parts[1], c = right.parts[0], d = right.parts[1];
  return {canonical(a * c - b * d), canonical(a * d + b * c)};
}

template <anello_dtype_t dtype, anello_op_t op>
struct Work {
  using Element = typename ElementOf<typename Types<dtype>::Storage>::type;
  using Sum = SumOf<Element, typename ElementOf<typename Types<dtype>::Accumulator>::type, op>;
  static constexpr int kAlignment = alignof(typename Types<dtype>::Storage);
  static constexpr anello_op_t kOp = op;
  static constexpr bool kWidens = !std::is_same_v<Sum, Element>;
  static constexpr bool kWideOperands = false;
  static constexpr bool kComplexes = class_of(dtype) == kComplex;
  static constexpr bool kScales = op == ANELLO_PROD;  // also for one source: by Arguments::factor
  // Whether two neighbours are processed at once.
  static constexpr bool kPairs = has_pairs<Element>;
  static constexpr int kLoads = full_loads(dtype, op, Form::elements);

  ANELLO_INLINE static Sum widen(Element value) {
    if constexpr (kWidens) {
      return device_widened(value);
    } else {
      return value;
    }
  }
  ANELLO_INLINE static Sum combine(Sum left, Sum right) {
    if constexpr (kComplexes) {
      return product(left, right);
    } else if constexpr (kWidens) {
      return combine_loosely<op>(left, right);  // rounding makes all NaNs one
    } else {
      return kernels::combine<op>(left, right);
    }
  }
  ANELLO_INLINE static Element narrow(Sum sum) {
    if constexpr (kWidens) {
      return device_rounded<Element>(sum);
    } else {
      return sum;
    }
  }
};

// For types whose sums are wider, when the first source or the destinations hold sums, so that every bit of the sums
// counts.
template <anello_dtype_t dtype, anello_op_t op>
struct WideWork : Work<dtype, op> {
  using Element = typename Work<dtype, op>::Element;
  static constexpr bool kWideOperands = true;
  static constexpr bool kPairs = false;
  static constexpr int kLoads = full_loads(dtype, op, Form::wide);
  ANELLO_INLINE static float widen(Element value) { return to_float(value); }
  ANELLO_INLINE static float combine(float left, float right) { return kernels::combine<op>(left, right); }
};

// With one source only.
struct Copy {
  static constexpr anello_op_t kOp = ANELLO_SUM;
  using Element = std::uint8_t;
  using Sum = Element;
  static constexpr int kAlignment = 1;
  static constexpr bool kWidens = false, kPairs = false, kWideOperands = false, kScales = false;
  static constexpr int kLoads = full_loads(ANELLO_BYTE, ANELLO_SUM, Form::copy);
  ANELLO_INLINE static Sum widen(Element value) { return value; }
  ANELLO_INLINE static Sum combine(Sum left, Sum) { return left; }
  ANELLO_INLINE static Element narrow(Sum sum) { return sum; }
};

}  // namespace
}  // namespace anello::kernels::cuda
