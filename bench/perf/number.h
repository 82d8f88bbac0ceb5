#pragma once
// Elements as numbers: converts a value to a data type and back. It is independent of Anello's own conversions, because
// it checks them.
#include <anello/anello.h>

namespace perf {

// The value of an element. second: the imaginary part of a complex number, or the index of a pair.
struct Number {
  double value;
  double second;
  Number(double first = 0, double other = 0) : value(first), second(other) {}
};

// Stores the number as a dtype, rounded once to nearest even; integers wrap. into has space for one element.
void encode(anello_dtype_t dtype, const Number& number, unsigned char* into);
// Requires: from is one element of dtype.
Number decode(anello_dtype_t dtype, const unsigned char* from);

}  // namespace perf
