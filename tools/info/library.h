#pragma once
// Information about Anello: its build, and which of its transports work here.
#include "info/report.h"

namespace info {

Section library();
Section build();
Section transports();

}  // namespace info
