#pragma once
// The expected result of a reduction: the host's functions on the same operands, in the same order.
#include "kernels/reduce.h"

#include <cstddef>
#include <vector>

namespace gpu {

using Bytes = std::vector<unsigned char>;

inline Bytes reduced(anello_dtype_t dtype, anello_op_t op, const std::vector<const unsigned char*>& sources,
                     std::size_t count, int ranks) {
  const std::size_t bytes = count * anello::dtype_bytes(dtype);
  Bytes result(sources[0], sources[0] + bytes);
  if (sources.size() == 1 && op != ANELLO_AVG) return result;
  const anello::kernels::Reducer& host = anello::kernels::reducer(dtype, op);
  if (host.accumulates) {
    Bytes sums(count * host.accumulator_bytes);
    host.widen(sums.data(), sources[0], count);
    for (std::size_t s = 1; s < sources.size(); ++s) host.accumulate(sums.data(), sources[s], count);
    host.finish(result.data(), sums.data(), count, ranks);
    return result;
  }
  for (std::size_t s = 1; s < sources.size(); ++s) host.reduce(result.data(), result.data(), sources[s], count);
  if (host.finishes) host.finish_in_type(result.data(), result.data(), count, ranks);
  return result;
}

// factor is of the accumulator's type.
inline Bytes scaled(anello_dtype_t dtype, const unsigned char* source, std::size_t count, const void* factor) {
  const anello::kernels::Reducer& host = anello::kernels::reducer(dtype, ANELLO_SUM);
  Bytes product(count * host.accumulator_bytes), result(count * host.element_bytes);
  host.scale(product.data(), source, factor, count);
  host.finish(result.data(), product.data(), count, 1);
  return result;
}

}  // namespace gpu
