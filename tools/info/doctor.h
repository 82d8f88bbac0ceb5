#pragma once
// anello-info --doctor: looks for what usually goes wrong on a host.
#include "shared/findings.h"

#include <vector>

namespace info {

// A few seconds at most. It changes nothing, and sends nothing to other hosts but the questions of the name service.
std::vector<shared::Finding> examine_host();

}  // namespace info
