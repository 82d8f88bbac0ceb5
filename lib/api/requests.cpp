#include "api/requests.h"

#include "rank/wait_across.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace anello::api {

bool is_idle(anello_request_t request) { return Held(request).idle(); }

bool test_one(anello_request_t request) {
  const Held held(request);
  if (Making* const alone = held.alone()) return alone->done();
  executor::Operation* const operation = held.operation();
  if (operation == nullptr) return true;
  return held.context()->test(*operation) && (!held.is_pair() || held.context()->test(*held.operation()));
}

namespace {

enum class Waited { nothing, for_an_operation, for_a_request };

Waited wait_once(std::size_t count, const anello_request_t* array) {
  std::vector<executor::Awaited> awaited;
  std::vector<executor::Operation*> operations;
  std::vector<std::size_t> alone;
  bool one_context = true, pairs = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Held held(array[i]);
    if (held.idle()) continue;
    if (held.alone() != nullptr) {
      alone.push_back(i);
      continue;
    }
    if (!awaited.empty() && awaited[0].context != held.context()) one_context = false;
    executor::Operation* const operation = held.operation();
    if (held.is_pair()) pairs = true;
    awaited.push_back({held.context(), operation});
    operations.push_back(operation);
  }
  if (awaited.empty() && alone.empty()) return Waited::nothing;
  const Waited waited = pairs ? Waited::for_an_operation : Waited::for_a_request;
  if (one_context && alone.empty()) {
    awaited[0].context->wait_any(operations.data(), operations.size());
    return waited;
  }
  const auto any_made = [&] {
    return std::any_of(alone.begin(), alone.end(), [&](std::size_t i) { return test_one(array[i]); });
  };
  executor::wait_across(awaited, alone.empty() ? std::function<bool()>() : any_made);
  return waited;
}

}  // namespace

bool wait_for_one(std::size_t count, const anello_request_t* array) {
  while (true) {
    const Waited waited = wait_once(count, array);
    if (waited != Waited::for_an_operation) return waited != Waited::nothing;
    // One operation of a pair may have ended, and the other one is next to wait for.
    if (std::any_of(array, array + count, [](anello_request_t each) { return !is_idle(each) && test_one(each); }))
      return true;
  }
}

void wait_for_all(std::size_t count, const anello_request_t* array) {
  std::vector<anello_request_t> left(array, array + count);
  while (true) {
    std::erase_if(left, test_one);
    if (!wait_for_one(left.size(), left.data())) return;
  }
}

}  // namespace anello::api
