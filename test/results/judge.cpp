#include "results/judge.h"

#include "support/operands.h"
#include "support/small_float.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace anello::results {
namespace {

using Real = long double;
using test::Class;

struct Format {
  anello_dtype_t dtype;
  int precision;  // bits of a number in which sums are formed
  Real least;     // the smallest step of the type in which they are formed
};
// Of the parts of floats and complex numbers.
Format format_of(anello_dtype_t part) {
  if (part == ANELLO_FLOAT64) return {part, 53, std::numeric_limits<double>::denorm_min()};
  return {part, 24, std::numeric_limits<float>::denorm_min()};
}

Real decode(anello_dtype_t part, const unsigned char* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, anello_dtype_size(part));
  switch (part) {
    case ANELLO_FLOAT64: return std::bit_cast<double>(bits);
    case ANELLO_FLOAT16: return testing::decode(testing::kFloat16, unsigned(bits));
    case ANELLO_BFLOAT16: return testing::decode(testing::kBFloat16, unsigned(bits));
    case ANELLO_FLOAT8_E4M3: return testing::decode(testing::kFloat8E4M3, unsigned(bits));
    case ANELLO_FLOAT8_E5M2: return testing::decode(testing::kFloat8E5M2, unsigned(bits));
    default: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  }
}

// The value that the type has for it. Rounding keeps order, so that an interval's ends are rounded to the ends of what
// it may give.
Real rounded(anello_dtype_t part, Real value) {
  const auto small = [&](const testing::Small& format) {
    return testing::decode(format, testing::encode(format, value));
  };
  switch (part) {
    case ANELLO_FLOAT64: return static_cast<double>(value);
    case ANELLO_FLOAT16: return small(testing::kFloat16);
    case ANELLO_BFLOAT16: return small(testing::kBFloat16);
    case ANELLO_FLOAT8_E4M3: return small(testing::kFloat8E4M3);
    case ANELLO_FLOAT8_E5M2: return small(testing::kFloat8E5M2);
    default: return static_cast<float>(value);
  }
}

// An exact result, and the sum (for PROD the product) of the magnitudes that rounding errors are measured by.
struct Exact {
  Real value[2];
  Real magnitude;
};

void put(unsigned char* at, anello_dtype_t dtype, double value) {
  const auto store = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case ANELLO_FLOAT64: return store(value);
    case ANELLO_FLOAT16: return store(static_cast<std::uint16_t>(testing::encode(testing::kFloat16, value)));
    case ANELLO_BFLOAT16: return store(static_cast<std::uint16_t>(testing::encode(testing::kBFloat16, value)));
    case ANELLO_FLOAT8_E4M3: return store(static_cast<std::uint8_t>(testing::encode(testing::kFloat8E4M3, value)));
    case ANELLO_FLOAT8_E5M2: return store(static_cast<std::uint8_t>(testing::encode(testing::kFloat8E5M2, value)));
    default: return store(static_cast<float>(value));
  }
}

std::string hex(const unsigned char* at, std::size_t bytes) {
  std::string text = "0x";
  for (std::size_t i = bytes; i-- > 0;) {
    text += "0123456789abcdef"[at[i] >> 4];
    text += "0123456789abcdef"[at[i] & 15];
  }
  return text;
}

}  // namespace

std::vector<unsigned char> operands(anello_dtype_t dtype, anello_op_t op, int rank, std::size_t count) {
  std::mt19937_64 random(std::uint64_t(rank) * 1000 + std::uint64_t(dtype) * 50 + std::uint64_t(op));
  std::vector<unsigned char> data = testing::operands(dtype, count, random);
  const Class type_class = test::class_of(dtype);
  if (type_class != Class::floating && type_class != Class::complex) return data;
  const anello_dtype_t part = testing::part_of(dtype);
  constexpr double kFactors[] = {1, -1, 2, 0.5};
  for (std::size_t i = 0; i < count; i += kExactEvery) {
    unsigned char* const at = data.data() + i * anello_dtype_size(dtype);
    double real = double(random() % 16) - 8, imaginary = double(random() % 16) - 8;
    if (op == ANELLO_PROD) {
      // Multiples of 2 + i have no product with a part that is 0, whose sign would depend on the order.
      imaginary = kFactors[random() % 4];
      real = type_class == Class::complex ? 2 * imaginary : imaginary;
    }
    put(at, part, real);
    if (type_class == Class::complex) put(at + anello_dtype_size(part), part, imaginary);
  }
  return data;
}

Judge::Judge(anello_dtype_t dtype, anello_op_t op, const std::vector<std::vector<unsigned char>>& operands, int last,
             int size, bool rank_order)
    : dtype_(dtype), op_(op), operands_(operands), last_(last), size_(size), element_(anello_dtype_size(dtype)) {
  const Class type_class = test::class_of(dtype);
  const bool rounds =
      (type_class == Class::floating || type_class == Class::complex) && op != ANELLO_MIN && op != ANELLO_MAX;
  exact_ = rank_order || !rounds;
  test::Operands inputs;
  for (int rank = 0; rank <= last; ++rank) inputs.push_back(operands[std::size_t(rank)].data());
  const std::size_t count = operands[0].size() / element_;
  expected_.resize(operands[0].size());
  test::reduce(dtype, op, inputs, count, size, expected_.data());
}

std::string Judge::look(const unsigned char* got, std::size_t first, std::size_t count) const {
  for (std::size_t i = first; i < first + count; ++i, got += element_) {
    const unsigned char* const expected = expected_.data() + i * element_;
    if (exact_ || i % kExactEvery == 0 || last_ == 0) {
      ++seen_.bits;
      if (std::memcmp(got, expected, element_) == 0) continue;
      // One operand alone may be as it is: any NaN, any padding, any number for true.
      if (last_ == 0 && std::memcmp(got, operands_[0].data() + i * element_, element_) == 0) continue;
      std::ostringstream out;
      out << "element " << i << " is " << hex(got, element_) << ", not " << hex(expected, element_) << ", of";
      for (int rank = 0; rank <= last_; ++rank)
        out << " " << hex(operands_[std::size_t(rank)].data() + i * element_, element_);
      return out.str();
    }
    if (const std::string wrong = look_at_interval(got, i); !wrong.empty()) return wrong;
  }
  return "";
}

std::string Judge::look_at_interval(const unsigned char* got, std::size_t i) const {
  const anello_dtype_t part = testing::part_of(dtype_);
  const std::size_t parts = test::class_of(dtype_) == Class::complex ? 2 : 1;
  Exact exact{{0, 0}, 0};
  bool nan = false, infinite = false, far = false;
  for (int rank = 0; rank <= last_; ++rank) {
    Real x[2] = {0, 0};
    for (std::size_t k = 0; k < parts; ++k) {
      x[k] = decode(part, operands_[std::size_t(rank)].data() + i * element_ + k * anello_dtype_size(part));
      nan = nan || std::isnan(x[k]);
      infinite = infinite || std::isinf(x[k]);
      // Beyond these a partial result may overflow or vanish in one order and not in another.
      far = far || std::fabs(x[k]) > 1024 || (op_ == ANELLO_PROD && std::fabs(x[k]) < 1.0L / 1024);
    }
    const Real size = std::fabs(x[0]) + std::fabs(x[1]);
    if (rank == 0) {
      exact = {{x[0], x[1]}, size};
    } else if (op_ == ANELLO_PROD) {
      const Real real = exact.value[0] * x[0] - exact.value[1] * x[1];
      exact.value[1] = exact.value[0] * x[1] + exact.value[1] * x[0];
      exact.value[0] = real;
      exact.magnitude *= size;
    } else {
      for (std::size_t k = 0; k < parts; ++k) exact.value[k] += x[k];
      exact.magnitude += size;
    }
  }
  if (nan && parts == 1) {
    ++seen_.bits;
    return std::isnan(decode(part, got)) ? "" : "element " + std::to_string(i) + " has lost a NaN";
  }
  if (nan || infinite || far) {
    ++seen_.neither;
    return "";
  }
  ++seen_.interval;
  const Format format = format_of(part);
  const Real divisor = op_ == ANELLO_AVG ? size_ : 1;
  // A rounding for each rank, of a complex product three; and one of the quotient.
  const Real roundings = (last_ + 2) * (parts == 2 && op_ == ANELLO_PROD ? 4 : 1);
  const Real error = (exact.magnitude * std::ldexp(Real(1), -format.precision) + format.least) * roundings / divisor;
  for (std::size_t k = 0; k < parts; ++k) {
    const Real value = decode(part, got + k * anello_dtype_size(part));
    const Real low = rounded(part, exact.value[k] / divisor - error),
               high = rounded(part, exact.value[k] / divisor + error);
    // Past its end E4M3 has a NaN.
    if (std::isnan(low) || std::isnan(high)) continue;
    if (value >= low && value <= high) continue;
    std::ostringstream out;
    out.precision(20);
    out << "element " << i << " part " << k << " is " << value << ", not in " << low << " .. " << high;
    return out.str();
  }
  return "";
}

}  // namespace anello::results
