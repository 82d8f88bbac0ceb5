#pragma once
// The machine's name in a table of measured choices: the properties that decide how long a call takes, as far as the
// machine reports them.
#include <string>

namespace anello {

// "AMD EPYC 7B13 64-Core Processor, 2 processors": the model, and the number of processors online.
std::string machine_name();

}  // namespace anello
