#include "model/operands.h"

#include "model/random.h"
#include "support/oracle.h"
#include "support/small_float.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace anello::model {
namespace {

using test::Class;

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

double number(anello_op_t op, Random& random) {
  static const std::vector<double> factors{1, -1, 2, -2, 0.5, -0.5};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static const std::vector<double> corners{
      0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 1.0 / 512, -1.0 / 512, 100, -100};
  if (op == ANELLO_PROD) return random.of(factors);
  if (op == ANELLO_MIN || op == ANELLO_MAX || op == ANELLO_MINLOC || op == ANELLO_MAXLOC) {
    return random.one_in(8) ? random.of(corners) : double(random.below(9) - 4);
  }
  const int whole = random.below(16) - 8;
  return whole;
}

void put_complex(unsigned char* at, anello_dtype_t part, anello_op_t op, Random& random) {
  double real = number(ANELLO_SUM, random), imaginary = number(ANELLO_SUM, random);
  if (op == ANELLO_PROD) {
    // Multiples of 2 + i: no product of such has a part that is 0, whose sign would depend on the order.
    const double scale = number(ANELLO_PROD, random);
    real = 2 * scale;
    imaginary = scale;
  }
  put(at, part, real);
  put(at + anello_dtype_size(part), part, imaginary);
}

// Few values, so that many are equal; any index.
void put_pair(unsigned char* at, const Step& step, Random& random) {
  const std::size_t bytes = anello_dtype_size(step.dtype) / 2;
  const std::uint64_t junk =
      is_prefix(step.kind) ? 0 : random();  // in the padding; a first rank's own pair stays as it is
  std::memcpy(at + bytes, &junk, bytes);
  const auto index = random.one_in(2) ? static_cast<std::int32_t>(random()) : random.below(8) - 4;
  if (step.dtype == ANELLO_FLOAT32_INT || step.dtype == ANELLO_FLOAT64_INT) {
    put(at, step.dtype == ANELLO_FLOAT32_INT ? ANELLO_FLOAT32 : ANELLO_FLOAT64, number(step.op, random));
  } else {
    const std::int64_t value = random.below(5) - 2;
    std::memcpy(at, &value, bytes);  // little-endian, as all of Anello is
  }
  std::memcpy(at + bytes, &index, sizeof index);
}

}  // namespace

Bytes period(const Step& step, int round, int source) {
  const std::size_t element = anello_dtype_size(step.dtype);
  Bytes bytes(kPeriod * element);
  Random random(mix(mix(step.seed, std::uint64_t(round) + 1), std::uint64_t(source) + 77));
  // Elements of the caller's own have no class.
  const Class type_class =
      !reduces(step.kind) || step.own_op != OwnOp::none ? Class::bytes : test::class_of(step.dtype);
  if (type_class == Class::integer || type_class == Class::bytes || type_class == Class::boolean) {
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    if (type_class == Class::boolean) {
      // Many of both; a first rank's own stays as it is.
      for (unsigned char& byte : bytes) byte = is_prefix(step.kind) ? byte & 1 : (byte & 1) != 0 ? byte : 0;
    }
    return bytes;
  }
  for (std::size_t i = 0; i < kPeriod; ++i) {
    unsigned char* const at = bytes.data() + i * element;
    if (type_class == Class::complex) {
      put_complex(at, step.dtype == ANELLO_COMPLEX64 ? ANELLO_FLOAT32 : ANELLO_FLOAT64, step.op, random);
    } else if (type_class == Class::pair) {
      put_pair(at, step, random);
    } else {
      put(at, step.dtype, number(step.op, random));
    }
  }
  return bytes;
}

void lay(unsigned char* at, const Bytes& period, std::size_t element, std::size_t first, std::size_t count) {
  for (std::size_t i = first % kPeriod; count > 0; i = 0) {
    const std::size_t n = std::min(count, kPeriod - i);
    std::memcpy(at, period.data() + i * element, n * element);
    at += n * element;
    count -= n;
  }
}

}  // namespace anello::model
