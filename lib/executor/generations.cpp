#include "executor/generations.h"

#include "base/error.h"

#include <algorithm>

namespace anello::executor {

std::uint32_t Generations::above(std::uint32_t brought) {
  if (brought == UINT32_MAX)
    throw Error(ANELLO_ERR_RESOURCE, "this job has made four billion communicators: there is no number left");
  return brought + 1;
}

std::uint32_t Generations::begin() { return *under_way_.insert(newest_.value_or(0)); }

void Generations::end(std::uint32_t brought) {
  if (const auto found = under_way_.find(brought); found != under_way_.end()) under_way_.erase(found);
}

void Generations::made(std::uint64_t id) { newest_ = std::max(newest_.value_or(0), of(id)); }

bool Generations::is_past(std::uint64_t id) const {
  return newest_ && of(id) <= (under_way_.empty() ? *newest_ : *under_way_.begin());
}

}  // namespace anello::executor
