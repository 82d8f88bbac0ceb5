// The role of silence_test.py: calls without end, and what is seen of the others meanwhile.
#include "failures/rank.h"

#include <string>
#include <vector>

using namespace failures;

namespace {

std::string list(const int* ranks, std::size_t count) {
  std::string words;
  for (std::size_t i = 0; i < count; ++i) words.append(" ").append(std::to_string(ranks[i]));
  return words.empty() ? " none" : words;
}

// All-reduces of so many numbers, with pauses, for so many seconds, or until one fails.
const Role listening("listening", [](Rank& me) {
  const anello_comm_t comm = me.create(me.number("timeout_ms", 120'000));
  std::vector<std::int32_t> numbers(std::size_t(me.number("count", 16)));
  const std::int64_t end = now_ns() + me.number("seconds", 60) * 1'000'000'000ll;
  std::string suspected = " none";
  anello_result_t result = ANELLO_OK;
  for (std::int32_t round = 0; result == ANELLO_OK; ++round) {
    numbers.assign(numbers.size(), 1);
    numbers[0] = now_ns() > end ? 1 : 0;
    anello_request_t request = ANELLO_REQUEST_NULL;
    result =
        anello_iallreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_INT32, ANELLO_SUM, comm, &request);
    for (int completed = 0; result == ANELLO_OK && completed == 0; sleep_ms(1)) {
      anello_progress(comm);  // keeps the deadline
      result = anello_test(&request, &completed, nullptr);
      anello_error_t now = ANELLO_ERROR_INITIALIZER;
      anello_error_info(comm, &now);
      const std::string seen = list(now.suspected, now.suspected_count);
      if (seen != suspected) me.say("suspected", seen);
      suspected = seen;
    }
    if (result == ANELLO_OK && numbers.back() != me.size() && numbers.size() > 1) me.check(false, "a wrong sum");
    if (round == 0) me.say("running");
    if (numbers[0] != 0) break;
    sleep_ms(me.number("pause_ms", 2));
  }
  me.report("ended", result, comm);
  sleep_ms(me.number("linger_ms", 0));  // over a slow link a goodbye may overtake the last call's data
  anello_error_t error = ANELLO_ERROR_INITIALIZER;
  anello_error_info(comm, &error);
  me.say("lost", list(error.lost, error.lost_count));
  anello_comm_destroy(comm);
});

}  // namespace
