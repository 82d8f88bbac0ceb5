// wait and test, for one request and for many.
#include "api/making.h"
#include "api/requests.h"
#include "base/kind.h"
#include "base/text.h"

#include <vector>

using namespace anello;
using namespace anello::api;

namespace {

void check_array(std::size_t count, const anello_request_t* requests_array) {
  if (count > 0 && requests_array == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "requests is NULL");
}

anello_result_t result_of(Posted& posted, const Pending& pending, anello_status_t* status) {
  executor::Operation* const operation = posted.operation.load(std::memory_order_relaxed);
  const Error error = operation->error;
  const anello_status_t came = operation->status;
  const bool message = is_message(operation->kind);
  const FailedCall call{operation->kind, message ? -1 : std::int64_t(operation->sequence), operation->label};
  if (status != nullptr && has_status(operation->kind)) *status = came;
  pending.communicator->context().release(operation);
  if (posted.reported) posted.reported->completed(error, came);
  return error ? failed(pending.comm, error, call) : ANELLO_OK;
}

anello_result_t result_of(Work work, const Pending& pending, anello_status_t* status) {
  if (work.awaited() == nullptr) return ANELLO_OK;
  const anello_result_t result = result_of(work.call, pending, status);
  const anello_result_t sent = work.is_pair() ? result_of(work.send, pending, nullptr) : ANELLO_OK;
  if (result == ANELLO_OK && pending.making != nullptr) pending.making->finish();
  return sent == ANELLO_OK ? result : sent;
}

// Consumes a request whose operation is done; a persistent one is inactive afterwards.
anello_result_t consume(anello_request_t* request, anello_status_t* status) {
  {
    const Requests::Use use(requests(), number(*request));
    if (use && use->persistent) return result_of(use->persistent->work.take(), *use, status);
  }
  auto pending = requests().remove(number(*request), [](const Pending&) {});
  if (!pending) throw Error(ANELLO_ERR_STATE, "the request was completed by another thread");
  *request = ANELLO_REQUEST_NULL;
  if (Making* const alone = pending->alone()) {
    alone->finish();
    return ANELLO_OK;
  }
  return result_of(pending->once.take(), *pending, status);
}

anello_status_t* at(anello_status_t* statuses, std::size_t i) { return statuses == nullptr ? nullptr : statuses + i; }

template <class Body>
anello_result_t guarded(Body&& body) noexcept {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    return body();
  });
}

// Consumes the requests that are done now. Returns their number, or -1 if all are null, and the first failure among
// them.
anello_result_t collect(std::size_t count, anello_request_t* array, int* done, int* indices,
                        anello_status_t* statuses) {
  int found = 0;
  bool any = false;
  anello_result_t first = ANELLO_OK;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_idle(array[i])) continue;
    any = true;
    if (!test_one(array[i])) continue;
    const anello_result_t result = consume(&array[i], at(statuses, std::size_t(found)));
    if (first == ANELLO_OK) first = result;
    if (indices != nullptr) indices[found] = static_cast<int>(i);
    ++found;
  }
  *done = any ? found : -1;
  return first;
}

}  // namespace

extern "C" {

anello_result_t anello_wait(anello_request_t* request, anello_status_t* status) {
  return guarded([&] {
    check_array(1, request);
    {
      const Held held(*request);
      if (held.idle()) return ANELLO_OK;
      if (Making* const alone = held.alone()) {
        alone->wait();
      } else {
        held.context()->wait(*held.operation());
        if (held.is_pair()) held.context()->wait(*held.operation());
      }
    }
    return consume(request, status);
  });
}

anello_result_t anello_test(anello_request_t* request, int* done, anello_status_t* status) {
  return guarded([&] {
    check_array(1, request);
    if (done == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "done is NULL");
    *done = test_one(*request) ? 1 : 0;
    return *done != 0 && !is_idle(*request) ? consume(request, status) : ANELLO_OK;
  });
}

anello_result_t anello_wait_all(size_t count, anello_request_t* requests_array, anello_status_t* statuses) {
  return guarded([&] {
    check_array(count, requests_array);
    anello_result_t first = ANELLO_OK;
    for (std::size_t i = 0; i < count; ++i) {
      const anello_result_t result = anello_wait(&requests_array[i], at(statuses, i));
      if (first == ANELLO_OK) first = result;
    }
    return first;
  });
}

anello_result_t anello_wait_any(size_t count, anello_request_t* requests_array, int* index, anello_status_t* status) {
  return guarded([&] {
    check_array(count, requests_array);
    if (index == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "index is NULL");
    if (!wait_for_one(count, requests_array)) {
      *index = -1;
      return ANELLO_OK;
    }
    int done = 0;
    return anello_test_any(count, requests_array, index, &done, status);
  });
}

anello_result_t anello_wait_some(size_t count, anello_request_t* requests_array, int* done, int* indices,
                                 anello_status_t* statuses) {
  return guarded([&] {
    check_array(count, requests_array);
    if (done == nullptr || (count > 0 && indices == nullptr))
      throw Error(ANELLO_ERR_ARGUMENT, "done or indices is NULL");
    wait_for_one(count, requests_array);
    return collect(count, requests_array, done, indices, statuses);
  });
}

anello_result_t anello_test_all(size_t count, anello_request_t* requests_array, int* done, anello_status_t* statuses) {
  return guarded([&] {
    check_array(count, requests_array);
    if (done == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "done is NULL");
    for (std::size_t i = 0; i < count; ++i) {
      if (!test_one(requests_array[i])) {
        *done = 0;
        return ANELLO_OK;
      }
    }
    *done = 1;
    return anello_wait_all(count, requests_array, statuses);
  });
}

anello_result_t anello_test_any(size_t count, anello_request_t* requests_array, int* index, int* done,
                                anello_status_t* status) {
  return guarded([&] {
    check_array(count, requests_array);
    if (index == nullptr || done == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "index or done is NULL");
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_idle(requests_array[i])) continue;
      any = true;
      if (!test_one(requests_array[i])) continue;
      *index = static_cast<int>(i);
      *done = 1;
      return consume(&requests_array[i], status);
    }
    *index = -1;
    *done = any ? 0 : 1;
    return ANELLO_OK;
  });
}

anello_result_t anello_test_some(size_t count, anello_request_t* requests_array, int* done, int* indices,
                                 anello_status_t* statuses) {
  return guarded([&] {
    check_array(count, requests_array);
    if (done == nullptr || (count > 0 && indices == nullptr))
      throw Error(ANELLO_ERR_ARGUMENT, "done or indices is NULL");
    return collect(count, requests_array, done, indices, statuses);
  });
}

anello_result_t anello_comm_descriptor(anello_comm_t comm, int* descriptor) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    if (descriptor == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "descriptor is NULL");
    *descriptor = communicator->context().completion_descriptor();
    return ANELLO_OK;
  });
}

anello_result_t anello_progress(anello_comm_t comm) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    communicator->context().progress_once();
    return ANELLO_OK;
  });
}

}  // extern "C"
