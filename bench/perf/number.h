#pragma once
// Elements as numbers: what a data type makes of a value, and back. Written apart from Anello's own conversions, since
// it judges them.
#include <anello/anello.h>

namespace perf {

// What an element stands for. second: the imaginary part of a complex number, or the index of a pair.
struct Number {
  double value;
  double second;
  Number(double first = 0, double other = 0) : value(first), second(other) {}
};

// The number as dtype holds it, rounded once to nearest even; integers wrap. into has room for one element.
void encode(anello_dtype_t dtype, const Number& number, unsigned char* into);
// Requires: from is one element of dtype.
Number decode(anello_dtype_t dtype, const unsigned char* from);

}  // namespace perf
