#pragma once
// The machine as a table of measured choices names it: what decides how long a call takes, as far as the machine says
// it.
#include <string>

namespace anello {

// "AMD EPYC 7B13 64-Core Processor, 2 processors": the model, and how many are online.
std::string machine_name();

}  // namespace anello
