#pragma once
// The elements that ranks hand in. What they are depends on the step, the round, the rank and the element's number;
// they come again after kPeriod elements, a prime, so that a million of them cost what a thousand do and no block,
// chunk or frame that ends up elsewhere looks the same.
#include "model/program.h"

namespace anello::model {

inline constexpr std::size_t kPeriod = 1021;

using Bytes = std::vector<unsigned char>;

// kPeriod elements of the step's type, of `source` (a rank of the communicator, or a message's number). If the step
// reduces, the elements are chosen so that no order of reduction rounds, and the result has one value.
Bytes period(const Step& step, int round, int source);

// Elements first, first + 1, .. of those, at `at`.
void lay(unsigned char* at, const Bytes& period, std::size_t element, std::size_t first, std::size_t count);

}  // namespace anello::model
