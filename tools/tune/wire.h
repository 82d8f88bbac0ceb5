#pragma once
// A job as sent to its ranks, and rank 0's output about it, one line each, as JSON.
#include "tune/job.h"

#include <string>

namespace anello::tune {

std::string as_json(const Job& job);
Job job_from(const std::string& json);
std::string as_json(const Measured& measured);
Measured measured_from(const std::string& json);

}  // namespace anello::tune
