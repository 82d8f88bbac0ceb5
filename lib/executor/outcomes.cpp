#include "executor/outcomes.h"

#include "base/text.h"

namespace anello::executor {

Error no_memory(const control::Job& job, const std::string& what) {
  return Error(ANELLO_ERR_RESOURCE, text("no memory for ", what, " on ", job.describe(job.rank())), job.rank());
}

}  // namespace anello::executor
