// A table of measured choices, as it comes from a file or from rank 0.
#include "base/error.h"
#include "fuzz/input.h"
#include "schedule/tuning.h"

#include <cstdlib>

using namespace anello;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  try {
    const schedule::Tuning tuning = schedule::parse_tuning(fuzz::Input(bytes, count).text(), "table");
    // What is printed of it says the same.
    const schedule::Tuning again = schedule::parse_tuning(schedule::print(tuning), "printed");
    if (schedule::print(again) != schedule::print(tuning)) std::abort();
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_ARGUMENT) std::abort();
  }
  return 0;
}
