// The log in the caller's hands.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

using namespace anello::test;

namespace {

struct Lines {
  std::mutex mutex;
  std::vector<std::string> text;
  std::vector<anello_log_level_t> levels;
  static void hear(void* self, anello_log_level_t level, const char* line) {
    auto& lines = *static_cast<Lines*>(self);
    const std::lock_guard held(lines.mutex);
    lines.text.emplace_back(line);
    lines.levels.push_back(level);
  }
  int with(const std::string& part) const {
    int found = 0;
    for (const std::string& each : text) found += each.find(part) != std::string::npos ? 1 : 0;
    return found;
  }
};

// Something to log: lanes at info, plans at debug.
std::string make_news() {
  return run_ranks(2, "shm", [](const Rank& me) {
    std::vector<float> values(100'000);
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.dtype = ANELLO_FLOAT32;
    call.op = ANELLO_SUM;
    call.sendbuf = ANELLO_IN_PLACE;
    call.recvbuf = values.data();
    call.count = values.size();
    call.algorithm = "ring";  // which needs lanes
    me.ok(anello_post(me.comm, &call, nullptr), "allreduce");
  });
}

// What goes to standard error while body runs.
template <class Body>
std::string standard_error(Body&& body) {
  char path[] = "/tmp/anello_log_XXXXXX";
  const int file = ::mkstemp(path);
  const int kept = ::dup(STDERR_FILENO);
  ::dup2(file, STDERR_FILENO);
  body();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(file);
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  ::unlink(path);
  return text.str();
}

}  // namespace

TEST_CASE("each line goes to the callback alone, at the level that was asked for") {
  Lines lines;
  CHECK(anello_set_log(&Lines::hear, &lines, ANELLO_LOG_INFO) == ANELLO_OK);
  CHECK(standard_error([] { CHECK(make_news() == ""); }) == "");
  CHECK(lines.with("[anello 0] rank 1 (host ") == 1);
  CHECK(lines.with("[anello 1] rank 0 (host ") == 1);
  CHECK(lines.with(" over shm") == 2);
  CHECK(lines.with("chunks of") == 0);
  for (const anello_log_level_t level : lines.levels) CHECK(level <= ANELLO_LOG_INFO);

  Lines more;
  CHECK(anello_set_log(&Lines::hear, &more, ANELLO_LOG_DEBUG) == ANELLO_OK);
  CHECK(make_news() == "");
  CHECK(more.with("allreduce(count 100000): ring, chunks of") == 2);

  Lines none;
  CHECK(anello_set_log(&Lines::hear, &none, ANELLO_LOG_OFF) == ANELLO_OK);
  CHECK(make_news() == "");
  CHECK(anello_set_log(&Lines::hear, &none, ANELLO_LOG_FROM_ENVIRONMENT) == ANELLO_OK);  // the default, warn
  CHECK(make_news() == "");
  CHECK(none.text.empty());
  CHECK(anello_set_log(&Lines::hear, &none, static_cast<anello_log_level_t>(6)) == ANELLO_ERR_ARGUMENT);

  const std::size_t before = lines.text.size() + more.text.size();
  CHECK(anello_set_log(nullptr, nullptr, ANELLO_LOG_TRACE) == ANELLO_OK);
  CHECK(standard_error([] { CHECK(make_news() == ""); }) == "");  // back at warn
  CHECK(lines.text.size() + more.text.size() == before);
}

TEST_CASE("callbacks change while lines are written") {
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    while (!stop) {
      auto* const lines = new Lines;
      anello_set_log(&Lines::hear, lines, ANELLO_LOG_TRACE);
      anello_set_log(nullptr, nullptr, ANELLO_LOG_OFF);
      delete lines;  // not used any more once the call before has returned
    }
  });
  for (int round = 0; round < 5; ++round) CHECK(make_news() == "");
  stop = true;
  changer.join();
}
