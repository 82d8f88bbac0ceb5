// Processes whose files may not be long (ulimit -f), which counts for shared memory: errors name the limit, what is
// left works, and nobody is killed by SIGXFSZ.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace failures;

namespace {

void limit_files(Rank& me) {
  const rlimit limit{static_cast<rlim_t>(me.number("most", 0)), RLIM_INFINITY};
  me.check(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

void check_sum(Rank& me, anello_comm_t comm) {
  std::vector<float> x(300'000, 1.0f);
  me.check(anello_allreduce(ANELLO_IN_PLACE, x.data(), x.size(), ANELLO_FLOAT32, ANELLO_SUM, comm), "allreduce", comm);
  me.check(x.front() == float(me.size()) && x.back() == float(me.size()), "the sum is wrong");
}

void check_refused(Rank& me, anello_result_t result, const std::string& text, const std::string& what) {
  me.check(result == ANELLO_ERR_RESOURCE, what + " gave " + anello_result_name(result));
  me.check(text.find("ulimit -f") != std::string::npos, what + " does not name the limit: " + text);
}

// Where standard error is a file, the log may not write to it either.
void log_to_a_file() {
  const int file = ::memfd_create("log", MFD_CLOEXEC);
  ::dup2(file, STDERR_FILENO);
  ::close(file);
}

const Role from_the_start("files are limited from the start", [](Rank& me) {
  log_to_a_file();
  limit_files(me);
  const anello_comm_t comm = me.create();
  const char* over = nullptr;
  me.check(anello_comm_transport(comm, 1 - me.rank(), &over), "transport", comm);
  me.say("over ", over);
  check_sum(me, comm);
  me.check(anello_comm_destroy(comm), "destroy");
  me.say("done");
});

const Role later("files are limited later", [](Rank& me) {
  const anello_comm_t comm = me.create();
  limit_files(me);
  check_sum(me, comm);  // staged: memory that was not there yet
  void* memory = nullptr;
  const anello_result_t allocated = anello_mem_alloc(64 << 20, &memory);
  check_refused(me, allocated, anello_last_error(ANELLO_COMM_NULL), "mem_alloc");
  void* base = nullptr;
  anello_window_t window = ANELLO_WINDOW_NULL;
  const anello_result_t made = anello_window_create(64 << 20, comm, &base, &window);
  check_refused(me, made, anello_last_error(comm), "window_create");
  check_sum(me, comm);
  me.check(anello_comm_destroy(comm), "destroy");
  me.say("done");
});

}  // namespace

TEST_CASE("ranks that may not share memory for the limit on the size of files use tcp") {
  for (const char* const most : {"262144", "1000", "0"}) {
    INFO(most);
    Ranks job(2, "files are limited from the start", "", {{"most", most}});
    job.expect_all("over tcp");
    job.finish();
  }
}

TEST_CASE("memory beyond the limit on the size of files is an error that names it") {
  for (const char* const most : {"1000000", "0"}) {
    INFO(most);
    Ranks job(2, "files are limited later", "shm", {{"most", most}});
    job.finish();
  }
}
