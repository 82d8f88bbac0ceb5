#pragma once
// A job on its way to its ranks, and what rank 0 says of it, a line each, as JSON.
#include "tune/job.h"

#include <string>

namespace anello::tune {

std::string as_json(const Job& job);
Job job_from(const std::string& json);
std::string as_json(const Measured& measured);
Measured measured_from(const std::string& json);

}  // namespace anello::tune
