#include "support/oracle.h"

#include "support/small_float.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace anello::test {
namespace {

__extension__ using Wide = __int128;

template <class T>
T load(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store(unsigned char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// ---- One type each: `combine` of two operands, `divide` for AVG ----

template <class T>
struct Integer {
  using Value = T;
  static T read(const unsigned char* at) { return load<T>(at); }
  static void write(unsigned char* at, T value) { store(at, value); }
  static T combine(anello_op_t op, T a, T b) {
    const Wide l = a, r = b;
    switch (op) {
      case ANELLO_PROD: {
        // The low bits of the product, without an overflow on the way.
        using Bits = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Bits>(std::uint64_t(Bits(a)) * std::uint64_t(Bits(b))));
      }
      case ANELLO_MIN: return l < r ? a : b;
      case ANELLO_MAX: return l > r ? a : b;
      case ANELLO_BAND: return static_cast<T>(l & r);
      case ANELLO_BOR: return static_cast<T>(l | r);
      case ANELLO_BXOR: return static_cast<T>(l ^ r);
      case ANELLO_LAND: return static_cast<T>(l != 0 && r != 0);
      case ANELLO_LOR: return static_cast<T>(l != 0 || r != 0);
      case ANELLO_LXOR: return static_cast<T>((l != 0) != (r != 0));
      default: return static_cast<T>(l + r);  // keeps the low bits: wraps
    }
  }
  static T divide(T sum, int ranks) { return static_cast<T>(Wide{sum} / ranks); }
};

struct Bool {
  using Value = bool;
  static bool read(const unsigned char* at) { return *at != 0; }
  static void write(unsigned char* at, bool value) { *at = value ? 1 : 0; }
  static bool combine(anello_op_t op, bool a, bool b) {
    switch (op) {
      case ANELLO_PROD:
      case ANELLO_MIN:
      case ANELLO_BAND:
      case ANELLO_LAND: return a && b;
      case ANELLO_BXOR:
      case ANELLO_LXOR: return a != b;
      default: return a || b;
    }
  }
  static bool divide(bool value, int) { return value; }
};

// MIN and MAX as IEEE 754 of 2019 has minimum and maximum: NaN wins, -0 below +0.
template <class T>
T extreme(bool least, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) == least ? a : b;
  return (a < b) == least ? a : b;
}

template <class T>
T combine_floats(anello_op_t op, T a, T b) {
  if (op == ANELLO_MIN || op == ANELLO_MAX) return extreme(op == ANELLO_MIN, a, b);
  const volatile T result = op == ANELLO_PROD ? a * b : a + b;
  return result;
}

template <class T>
struct Float {
  using Value = T;
  static T read(const unsigned char* at) { return load<T>(at); }
  static void write(unsigned char* at, T value) {
    store(at, std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value);
  }
  static T combine(anello_op_t op, T a, T b) { return combine_floats(op, a, b); }
  static T divide(T sum, int ranks) { return sum / static_cast<T>(ranks); }
};

template <const testing::Small* format>
struct SmallFloat {
  using Value = float;
  static std::size_t bytes() { return format->bits() == 16 ? 2 : 1; }
  static float read(const unsigned char* at) {
    unsigned bits = 0;
    std::memcpy(&bits, at, bytes());
    return static_cast<float>(testing::decode(*format, bits));
  }
  static void write(unsigned char* at, float value) {
    const unsigned bits = testing::encode(*format, value);
    std::memcpy(at, &bits, bytes());
  }
  static float combine(anello_op_t op, float a, float b) { return combine_floats(op, a, b); }
  static float divide(float sum, int ranks) { return sum / static_cast<float>(ranks); }
};

template <class T>
struct Complex {
  using Value = std::complex<T>;
  static Value read(const unsigned char* at) { return {load<T>(at), load<T>(at + sizeof(T))}; }
  static void write(unsigned char* at, Value value) {
    Float<T>::write(at, value.real());
    Float<T>::write(at + sizeof(T), value.imag());
  }
  static Value combine(anello_op_t op, Value x, Value y) {
    if (op != ANELLO_PROD) return {x.real() + y.real(), x.imag() + y.imag()};
    // Each product rounded, then the sum: no fused operation.
    const volatile T ac = x.real() * y.real(), bd = x.imag() * y.imag();
    const volatile T ad = x.real() * y.imag(), bc = x.imag() * y.real();
    return {ac - bd, ad + bc};
  }
  static Value divide(Value sum, int ranks) {
    return {sum.real() / static_cast<T>(ranks), sum.imag() / static_cast<T>(ranks)};
  }
};

// The public structs; the padding of what is computed is 0.
template <class Pair>
struct Located {
  using Value = Pair;
  static Pair read(const unsigned char* at) { return load<Pair>(at); }
  static void write(unsigned char* at, Pair pair) {
    std::memset(at, 0, sizeof pair);
    if constexpr (std::is_floating_point_v<decltype(pair.value)>) {
      if (std::isnan(pair.value)) pair.value = std::numeric_limits<decltype(pair.value)>::quiet_NaN();
    }
    store(at, pair.value);
    store(at + offsetof(Pair, index), pair.index);
  }
  static Pair combine(anello_op_t op, Pair a, Pair b) {
    const bool least = op == ANELLO_MINLOC;
    if (same(a.value, b.value)) return a.index <= b.index ? a : b;
    return before(least, a.value, b.value) ? a : b;
  }
  static Pair divide(Pair pair, int) { return pair; }

 private:
  template <class T>
  static bool same(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
      return a == b && std::signbit(a) == std::signbit(b);
    } else {
      return a == b;
    }
  }
  template <class T>
  static bool before(bool least, T a, T b) {  // not the same
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a);
      if (a == b) return std::signbit(a) == least;
    }
    return (a < b) == least;
  }
};

template <class Type>
void fold_as(anello_dtype_t dtype, anello_op_t op, const Operands& operands, std::size_t count, int ranks,
             unsigned char* into) {
  const std::size_t element = anello_dtype_size(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    typename Type::Value sum = Type::read(operands[0] + i * element);
    for (std::size_t rank = 1; rank < operands.size(); ++rank) {
      sum = Type::combine(op, sum, Type::read(operands[rank] + i * element));
    }
    Type::write(into + i * element, op == ANELLO_AVG ? Type::divide(sum, ranks) : sum);
  }
}

using Reduce = void (*)(anello_dtype_t, anello_op_t, const Operands&, std::size_t, int, unsigned char*);

struct Row {
  anello_dtype_t dtype;
  Class type_class;
  Reduce reduce;
};
const Row kRows[] = {
    {ANELLO_FLOAT32, Class::floating, fold_as<Float<float>>},
    {ANELLO_FLOAT64, Class::floating, fold_as<Float<double>>},
    {ANELLO_INT32, Class::integer, fold_as<Integer<std::int32_t>>},
    {ANELLO_INT64, Class::integer, fold_as<Integer<std::int64_t>>},
    {ANELLO_UINT8, Class::integer, fold_as<Integer<std::uint8_t>>},
    {ANELLO_FLOAT16, Class::floating, fold_as<SmallFloat<&testing::kFloat16>>},
    {ANELLO_BFLOAT16, Class::floating, fold_as<SmallFloat<&testing::kBFloat16>>},
    {ANELLO_INT8, Class::integer, fold_as<Integer<std::int8_t>>},
    {ANELLO_INT16, Class::integer, fold_as<Integer<std::int16_t>>},
    {ANELLO_UINT16, Class::integer, fold_as<Integer<std::uint16_t>>},
    {ANELLO_UINT32, Class::integer, fold_as<Integer<std::uint32_t>>},
    {ANELLO_UINT64, Class::integer, fold_as<Integer<std::uint64_t>>},
    {ANELLO_FLOAT8_E4M3, Class::floating, fold_as<SmallFloat<&testing::kFloat8E4M3>>},
    {ANELLO_FLOAT8_E5M2, Class::floating, fold_as<SmallFloat<&testing::kFloat8E5M2>>},
    {ANELLO_BOOL, Class::boolean, fold_as<Bool>},
    {ANELLO_COMPLEX64, Class::complex, fold_as<Complex<float>>},
    {ANELLO_COMPLEX128, Class::complex, fold_as<Complex<double>>},
    {ANELLO_BYTE, Class::bytes, nullptr},
    {ANELLO_FLOAT32_INT, Class::pair, fold_as<Located<anello_float32_int_t>>},
    {ANELLO_FLOAT64_INT, Class::pair, fold_as<Located<anello_float64_int_t>>},
    {ANELLO_INT32_INT, Class::pair, fold_as<Located<anello_int32_int_t>>},
    {ANELLO_INT64_INT, Class::pair, fold_as<Located<anello_int64_int_t>>},
};

}  // namespace

Class class_of(anello_dtype_t dtype) { return kRows[dtype].type_class; }

bool is_small_float(anello_dtype_t dtype) { return class_of(dtype) == Class::floating && anello_dtype_size(dtype) < 4; }

bool makes_sense(anello_dtype_t dtype, anello_op_t op) {
  const bool bitwise = op >= ANELLO_BAND && op <= ANELLO_LXOR;
  const bool locates = op == ANELLO_MINLOC || op == ANELLO_MAXLOC;
  switch (class_of(dtype)) {
    case Class::integer: return !locates;
    case Class::floating: return !locates && !bitwise;
    case Class::complex: return op == ANELLO_SUM || op == ANELLO_PROD || op == ANELLO_AVG;
    case Class::boolean: return !locates && op != ANELLO_AVG;
    case Class::pair: return locates;
    case Class::bytes: return false;
  }
  return false;
}

std::vector<anello_dtype_t> all_dtypes() {
  std::vector<anello_dtype_t> dtypes;
  for (const Row& row : kRows) dtypes.push_back(row.dtype);
  return dtypes;
}

std::vector<anello_op_t> ops_of(anello_dtype_t dtype) {
  std::vector<anello_op_t> ops;
  for (int op = ANELLO_SUM; op <= ANELLO_MAXLOC; ++op) {
    if (makes_sense(dtype, static_cast<anello_op_t>(op))) ops.push_back(static_cast<anello_op_t>(op));
  }
  return ops;
}

void reduce(anello_dtype_t dtype, anello_op_t op, const Operands& operands, std::size_t count, int ranks,
            unsigned char* into) {
  if (operands.size() == 1 && ranks == 1) {
    if (count > 0) std::memcpy(into, operands[0], count * anello_dtype_size(dtype));
    return;
  }
  kRows[dtype].reduce(dtype, op, operands, count, ranks, into);
}

}  // namespace anello::test
