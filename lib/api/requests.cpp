#include "api/requests.h"

#include "executor/wait_across.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace anello::api {

bool is_idle(anello_request_t request) { return Held(request).idle(); }

bool test_one(anello_request_t request) {
  const Held held(request);
  if (Making* const alone = held.alone()) return alone->done();
  return held.operation() == nullptr || held.context()->test(*held.operation());
}

bool wait_for_one(std::size_t count, const anello_request_t* array) {
  std::vector<executor::Awaited> awaited;
  std::vector<executor::Operation*> operations;
  std::vector<std::size_t> alone;
  bool one_context = true;
  for (std::size_t i = 0; i < count; ++i) {
    const Held held(array[i]);
    if (held.idle()) continue;
    if (held.alone() != nullptr) {
      alone.push_back(i);
      continue;
    }
    if (!awaited.empty() && awaited[0].context != held.context()) one_context = false;
    awaited.push_back({held.context(), held.operation()});
    operations.push_back(held.operation());
  }
  if (awaited.empty() && alone.empty()) return false;
  if (one_context && alone.empty()) {
    awaited[0].context->wait_any(operations.data(), operations.size());
    return true;
  }
  const auto any_made = [&] { return std::any_of(alone.begin(), alone.end(), [&](std::size_t i) { return test_one(array[i]); }); };
  executor::wait_across(awaited, alone.empty() ? std::function<bool()>() : any_made);
  return true;
}

void wait_for_all(std::size_t count, const anello_request_t* array) {
  std::vector<anello_request_t> left(array, array + count);
  while (true) {
    std::erase_if(left, test_one);
    if (!wait_for_one(left.size(), left.data())) return;
  }
}

}  // namespace anello::api
