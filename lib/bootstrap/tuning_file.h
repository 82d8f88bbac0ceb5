#pragma once
// Finds the table of measured choices: ANELLO_TUNING, else the user's, else the host's.
#include "base/config.h"
#include "bootstrap/launcher.h"
#include "control/job.h"

namespace anello::bootstrap {

// Of these variables' places the first that there is. One that ANELLO_TUNING names and cannot be read is a problem;
// "none" stands for none.
control::TuningFile find_tuning(const Config& config, const Lookup& lookup);

}  // namespace anello::bootstrap
