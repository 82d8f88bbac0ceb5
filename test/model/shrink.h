#pragma once
#include "model/job.h"

namespace anello::model {

struct Smallest {
  Job job;
  std::string trouble;
  int runs = 0;  // jobs that were started to find it
};

// From a job of one program that fails, the smallest found within the time: fewer steps, ranks, threads, elements, and
// nothing particular where that makes no difference. A candidate counts as failing when it fails in one of a few runs.
Smallest shrink(const Job& job, const std::string& trouble, int seconds);

}  // namespace anello::model
