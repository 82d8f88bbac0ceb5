#pragma once
// Elements as numbers: what a data type makes of a value, and back. Written apart from Anello's own conversions, since
// it judges them.
#include <anello/anello.h>

namespace perf {

// The value as dtype holds it, rounded once to nearest even; integers wrap. into has room for one element.
void encode(anello_dtype_t dtype, double value, unsigned char* into);
// Requires: from is one element of dtype.
double decode(anello_dtype_t dtype, const unsigned char* from);

}  // namespace perf
