#pragma once
// Complex numbers. Operations that act on each part alone use the kernel of the parts on twice as many elements; the
// product does not. The loops are in an unnamed namespace, as reduce_loops.h explains.
#include "kernels/elements.h"
#include "kernels/reduce.h"

namespace anello::kernels {
namespace {

template <class Complex, class Parts>
struct Partwise {
  static void reduce(void* into, const void* left, const void* right, std::size_t count) {
    Parts::reduce(into, left, right, 2 * count);
  }
  static void reduce_twice(void* into, void* twin, const void* left, const void* right, std::size_t count) {
    Parts::reduce_twice(into, twin, left, right, 2 * count);
  }
  static void reduce_all(void* const* into, int destinations, const void* const* from, int sources, std::size_t count) {
    Parts::reduce_all(into, destinations, from, sources, 2 * count);
  }
  static void widen(void* accumulator, const void* from, std::size_t count) {
    Parts::widen(accumulator, from, 2 * count);
  }
  static void accumulate(void* accumulator, const void* from, std::size_t count) {
    Parts::accumulate(accumulator, from, 2 * count);
  }
  static void finish(void* into, const void* accumulator, std::size_t count, int ranks) {
    Parts::finish(into, accumulator, 2 * count, ranks);
  }
  static void finish_in_type(void* into, const void* from, std::size_t count, int ranks) {
    Parts::finish_in_type(into, from, 2 * count, ranks);
  }

  static constexpr Reducer reducer() {
    const Reducer parts = Parts::reducer();
    return {sizeof(Complex), sizeof(Complex), parts.accumulates, parts.finishes, reduce,        reduce_twice,
            reduce_all,      widen,           accumulate,        finish,         finish_in_type};
  }
};

// left[i] * right[i], or left[i] * right[0] if all elements have the same factor.
// The products go through memory, block by block. If both were in one loop, GCC 12 would fuse a multiplication with the
// addition that follows, even with -ffp-contract=off, and AVX-512 would round once where others round twice.
template <class Real, bool same_right>
void multiply_complex(void* into, const void* left, const void* right, std::size_t count) {
  constexpr std::size_t kBlock = 64;
  const DefaultFloats environment;
  const auto i = static_cast<Elements<Real>>(into);
  const auto l = static_cast<ConstElements<Real>>(left);
  const auto r = static_cast<ConstElements<Real>>(right);
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t part = count - done < kBlock ? count - done : kBlock;
    Real ac[kBlock], bd[kBlock], ad[kBlock], bc[kBlock];
    for (std::size_t k = 0; k < part; ++k) {
      const std::size_t at = 2 * (done + k);
      const std::size_t other = same_right ? 0 : at;
      const Real a = l[at].get(), b = l[at + 1].get(), c = r[other].get(), d = r[other + 1].get();
      ac[k] = a * c;
      bd[k] = b * d;
      ad[k] = a * d;
      bc[k] = b * c;
    }
    for (std::size_t k = 0; k < part; ++k) {
      i[2 * (done + k)].set(canonical(ac[k] - bd[k]));
      i[2 * (done + k) + 1].set(canonical(ad[k] + bc[k]));
    }
  }
}

// For operations that act on each part alone.
template <class Complex, class Real, class Parts>
struct ComplexSum : Partwise<Complex, Parts> {
  static constexpr Reducer reducer() {
    Reducer made = Partwise<Complex, Parts>::reducer();
    made.scale = multiply_complex<Real, true>;
    return made;
  }
};

// Adds to Parts, which already moves the parts.
template <class Complex, class Real, class Parts>
struct ComplexProduct : Partwise<Complex, Parts> {
  static void accumulate(void* accumulator, const void* from, std::size_t count) {
    multiply_complex<Real, false>(accumulator, accumulator, from, count);
  }

  static void reduce_twice(void* into, void* twin, const void* left, const void* right, std::size_t count) {
    multiply_complex<Real, false>(into, left, right, count);
    if (count != 0) __builtin_memcpy(twin, into, count * sizeof(Complex));
  }

  static constexpr Reducer reducer() {
    Reducer made = Partwise<Complex, Parts>::reducer();
    made.reduce = multiply_complex<Real, false>;
    made.reduce_twice = reduce_twice;
    made.reduce_all = nullptr;
    made.accumulate = accumulate;
    return made;
  }
};

}  // namespace
}  // namespace anello::kernels
