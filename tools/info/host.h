#pragma once
// What this host offers, as far as it decides how Anello runs: each function one section of the report.
#include "info/report.h"

namespace info {

Section processors();
Section memory();

}  // namespace info
