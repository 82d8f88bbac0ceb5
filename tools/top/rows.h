#pragma once
// What two looks at the ranks of this host come to: a row for each rank and communicator.
#include "jobs/local_ranks.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace top {

struct Row {
  std::int64_t pid = 0;
  bool is_stopped = false;
  anello::recorder::Snapshot shown;  // settled
  std::map<std::string, anello::recorder::Total> totals;
  double calls_per_s = 0;
  double bytes_per_s = 0;
  bool waits = false;          // in the same operation in both looks
  std::vector<int> waits_for;  // ranks of the job
};

std::vector<Row> rows_of(const jobs::Look& before, const jobs::Look& now);
// "1f0c44d2a57b03e9"
std::string job_name(const anello::recorder::Identity& who);
std::string communicator_name(const anello::recorder::Identity& who);

}  // namespace top
