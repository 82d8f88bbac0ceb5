#include "info/explain_dump.h"

#include "jobs/dump_files.h"
#include "jobs/explanation.h"

std::string info::explain_dump(const std::vector<std::string>& paths) { return jobs::explain(jobs::read_dumps(paths)); }
