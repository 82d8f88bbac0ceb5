#pragma once
// "auto", "cpu" and "gpu" in place of a number of ranks.
#include "anellorun/layout.h"
#include "shared/command_line.h"

namespace anellorun {

// A number, or one of these words, which stand for a negative one.
CLI::Validator number_of_ranks();

// Puts numbers in place of the words. Throws Mistake.
void settle_counts(Wishes& wishes);

}  // namespace anellorun
