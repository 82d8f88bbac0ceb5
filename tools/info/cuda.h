#pragma once
// The parts for reductions on GPUs: the kernels, the driver, the devices.
#include "info/report.h"

namespace info {

Section cuda();

}  // namespace info
