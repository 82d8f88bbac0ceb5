#pragma once
// The ports of RDMA adapters that verbs can use.
#include "info/report.h"

namespace info {

Section rdma();

}  // namespace info
