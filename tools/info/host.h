#pragma once
// The properties of this host that matter to Anello: each function makes one section of the report.
#include "info/report.h"

namespace info {

Section processors();
Section memory();

}  // namespace info
