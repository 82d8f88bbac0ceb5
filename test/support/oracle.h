#pragma once
// What a reduction must give, by definition and element by element: the ranks' operands in rank order. It knows nothing
// of the library but the public header's enumerators.
#include <anello/anello.h>

#include <cstddef>
#include <vector>

namespace anello::test {

enum class Class { integer, floating, complex, boolean, pair, bytes };

Class class_of(anello_dtype_t dtype);
bool makes_sense(anello_dtype_t dtype, anello_op_t op);
// Sums and products of it are formed in float32, and rounded at the end.
bool is_small_float(anello_dtype_t dtype);
std::vector<anello_dtype_t> all_dtypes();
std::vector<anello_op_t> ops_of(anello_dtype_t dtype);

using Operands = std::vector<const unsigned char*>;

// into[i] = op over ranks of operands[rank][i], as one owner reduces ranks 0, 1, ..; AVG divides by `ranks`. With one
// operand and one rank the input is the result as it is.
void reduce(anello_dtype_t dtype, anello_op_t op, const Operands& operands, std::size_t count, int ranks,
            unsigned char* into);

}  // namespace anello::test
