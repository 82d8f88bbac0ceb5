#include "communicator/premultiply.h"

#include "base/dtype.h"
#include "base/text.h"
#include "kernels/reduce.h"

#include <algorithm>
#include <cstring>

namespace anello {
namespace {

bool is_plain_float(anello_dtype_t dtype) { return dtype == ANELLO_FLOAT32 || dtype == ANELLO_FLOAT64; }

// The scalar in the type in which elements of dtype are multiplied.
std::array<std::byte, 16> factor_for(const CustomOp& op, anello_dtype_t dtype) {
  std::array<std::byte, 16> factor{};
  if (op.scalar_dtype == dtype) {
    kernels::reducer(dtype, ANELLO_SUM).widen(factor.data(), op.scalar.data(), 1);
    return factor;
  }
  double wide = 0;
  if (op.scalar_dtype == ANELLO_FLOAT32) {
    float value = 0;
    std::memcpy(&value, op.scalar.data(), sizeof value);
    wide = value;
  } else {
    std::memcpy(&wide, op.scalar.data(), sizeof wide);
  }
  if (dtype == ANELLO_FLOAT64) {
    std::memcpy(factor.data(), &wide, sizeof wide);
  } else {
    const auto narrow = static_cast<float>(wide);
    std::memcpy(factor.data(), &narrow, sizeof narrow);
  }
  return factor;
}

void scale(std::byte* into, const std::byte* from, std::size_t count, anello_dtype_t dtype, const CustomOp& op) {
  // A real factor scales the parts of complex numbers separately: in a complex product, zero times infinity would
  // become NaN.
  if (class_of(dtype) == kComplex && op.scalar_dtype != dtype) {
    return scale(into, from, 2 * count, dtype == ANELLO_COMPLEX64 ? ANELLO_FLOAT32 : ANELLO_FLOAT64, op);
  }
  const auto factor = factor_for(op, dtype);
  kernels::reducer(dtype, ANELLO_SUM).scale(into, from, factor.data(), count);
}

}  // namespace

std::string why_not_premultiplied(const CustomOp& op, anello_dtype_t dtype) {
  const unsigned type_class = class_of(dtype);
  if ((type_class & (kInteger | kFloat | kComplex)) == 0) {
    return text("a premultiplied sum of ", dtype_name(dtype),
                " makes no sense; it takes integers, floats and complex numbers");
  }
  if (op.scalar_dtype == dtype || (type_class != kInteger && is_plain_float(op.scalar_dtype))) return "";
  return text("the premultiplied sum's scalar is ", dtype_name(op.scalar_dtype), ", which cannot scale ",
              dtype_name(dtype),
              type_class == kInteger ? text("; make one of ", dtype_name(dtype))
                                     : text("; make one of ", dtype_name(dtype), ", float32 or float64"));
}

void premultiply(executor::Operation& operation, const CustomOp& op, bool in_place, const Amounts& amounts) {
  const kernels::Reducer& sum = kernels::reducer(operation.dtype, ANELLO_SUM);
  if (in_place && amounts.out > 0 && !sum.accumulates) {
    scale(operation.output, operation.input, amounts.in, operation.dtype, op);
    return;
  }
  executor::Staged& staged = operation.staged;
  const std::size_t bytes = std::max(amounts.in, amounts.out) * sum.accumulator_bytes;
  if (staged.memory.size() < bytes) staged.memory.resize(bytes);
  scale(staged.memory.data(), operation.input, amounts.in, operation.dtype, op);
  staged.result = amounts.out > 0 ? operation.output : nullptr;
  staged.count = amounts.out;
  staged.rounding = &sum;
  operation.input = operation.output = staged.memory.data();
}

}  // namespace anello
