#include "model/pending.h"

#include "model/calls.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace anello::model {

std::string said(anello_result_t result, anello_comm_t comm) {
  const std::string text = anello_last_error(comm);
  return std::string(anello_result_name(result)) + (text.empty() ? "" : ": " + text);
}

void Pending::complete_some(Random& random) {
  if (parts_.empty()) return;
  std::vector<Part*> chosen;
  for (Part* const part : parts_) {
    if (random.one_in(2)) chosen.push_back(part);
  }
  if (chosen.empty()) chosen.push_back(random.of(parts_));
  const auto way = static_cast<Way>(random.below(8));
  // Null requests among them are skipped.
  if (way != Way::wait && way != Way::test && random.one_in(3)) chosen.push_back(nullptr);
  random.shuffle(chosen);
  complete(chosen, way);
}

void Pending::complete(Part* part) {
  if (part->active) complete({part}, Way::wait);
}

void Pending::complete_all(Random& random) {
  while (!parts_.empty()) complete_some(random);
}

void Pending::complete(const std::vector<Part*>& chosen, Way way) {
  std::vector<anello_request_t> requests;
  for (const Part* const part : chosen) requests.push_back(part != nullptr ? part->request : ANELLO_REQUEST_NULL);
  const std::size_t count = requests.size();
  std::vector<anello_status_t> statuses(count, kNoStatus);
  std::vector<int> indices(count, -1);
  anello_result_t result = ANELLO_OK;
  int done = 0, index = -1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms_);
  const auto again = [&] {
    if (result != ANELLO_OK || done != 0) return false;
    if (std::chrono::steady_clock::now() > end) throw Wrong("no request completes, and test does not say why");
    std::this_thread::yield();
    return true;
  };
  switch (way) {
    case Way::wait: result = anello_wait(&requests[0], &statuses[0]); break;
    case Way::test:
      do result = anello_test(&requests[0], &done, &statuses[0]);
      while (again());
      break;
    case Way::wait_all: result = anello_wait_all(count, requests.data(), statuses.data()); break;
    case Way::test_all:
      do result = anello_test_all(count, requests.data(), &done, statuses.data());
      while (again());
      break;
    case Way::wait_any: result = anello_wait_any(count, requests.data(), &index, &statuses[0]); break;
    case Way::test_any:
      do result = anello_test_any(count, requests.data(), &index, &done, &statuses[0]);
      while (again());
      break;
    case Way::wait_some:
      result = anello_wait_some(count, requests.data(), &done, indices.data(), statuses.data());
      break;
    case Way::test_some:
      do result = anello_test_some(count, requests.data(), &done, indices.data(), statuses.data());
      while (again());
      break;
  }
  const bool of_requests = way == Way::wait_all || way == Way::test_all;  // else in the order of indices
  std::vector<Part*> finished;
  std::vector<anello_status_t> finished_statuses;
  if (way == Way::wait || way == Way::test) {
    indices = {0};
  } else if (way == Way::wait_any || way == Way::test_any) {
    indices = {index};
  } else if (of_requests) {
    indices.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if (chosen[i] != nullptr) indices.push_back(int(i));
    }
  } else {
    if (done < 1 || std::size_t(done) > chosen.size())
      throw Wrong("some say that " + std::to_string(done) + " are complete");
    indices.resize(std::size_t(done));
  }
  for (const int i : indices) {
    if (i < 0 || std::size_t(i) >= chosen.size() || chosen[std::size_t(i)] == nullptr)
      throw Wrong("request " + std::to_string(i) + " is said to be complete");
    Part* const part = chosen[std::size_t(i)];
    if (std::find(finished.begin(), finished.end(), part) != finished.end())
      throw Wrong("a request is said to be complete twice");
    const bool stays = part->form == Form::persistent;
    if ((requests[std::size_t(i)] != ANELLO_REQUEST_NULL) != stays)
      throw Wrong("the request stays or goes as it should not");
    finished_statuses.push_back(statuses[of_requests ? std::size_t(i) : finished.size()]);
    finished.push_back(part);
  }
  completed(finished, result, finished_statuses);
}

void Pending::completed(const std::vector<Part*>& done, anello_result_t result,
                        const std::vector<anello_status_t>& statuses) {
  anello_result_t expected = ANELLO_OK;
  for (Part* const part : done) {
    if (expected == ANELLO_OK) expected = part->expected_result();
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    Part* const part = done[i];
    part->active = false;
    if (part->form != Form::persistent) part->request = ANELLO_REQUEST_NULL;
    parts_.erase(std::find(parts_.begin(), parts_.end(), part));
    if (result != expected) continue;
    try {
      anello_status_t status = statuses[i];
      seen(status);
      part->check(status);
    } catch (const Wrong& wrong) {
      throw Wrong("completing step " + std::to_string(part->step().id) + ", round " + std::to_string(part->round()) +
                  ": " + wrong.what());
    }
  }
  if (result != expected) {
    throw Wrong("completing step " + std::to_string(done[0]->step().id) + (done.size() > 1 ? " and others" : "") +
                " gives " + said(result, ANELLO_COMM_NULL) + ", not " + anello_result_name(expected));
  }
}

}  // namespace anello::model
