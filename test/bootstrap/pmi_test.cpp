// The launcher's key space against a scripted launcher; test/tools/foreign_launchers_test.py has the real one.
#include "base/error.h"
#include "base/unique_fd.h"
#include "bootstrap/pmi.h"
#include "support/catch.h"

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using namespace anello;
using namespace anello::bootstrap;

namespace {

// Answers each line with the next of its answers, then closes. What it was asked is in `asked`.
class Script {
 public:
  explicit Script(std::vector<std::string> answers) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    rank = UniqueFd(ends[0]);
    launcher_ = UniqueFd(ends[1]);
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        std::string line;
        for (char byte = 0; byte != '\n' && ::read(launcher_.get(), &byte, 1) == 1;) line += byte;
        asked.push_back(line);
        // One byte at a time, as a slow network would bring them.
        for (const char byte : answer) (void)!::send(launcher_.get(), &byte, 1, MSG_NOSIGNAL);
      }
      launcher_.reset();
    });
  }
  ~Script() {
    rank.reset();  // the thread may be writing to it
    join();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  UniqueFd rank;
  std::vector<std::string> asked;

 private:
  UniqueFd launcher_;
  std::thread thread_;
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ANELLO_ERR_RENDEZVOUS);
    return error.text();
  }
  return {};
}

}  // namespace

TEST_CASE("fields of an answer are found by their whole names") {
  CHECK(pmi_field("cmd=get_result rc=0 msg=success value=x=y", "value") == "x=y");
  CHECK(pmi_field("cmd=get_result rc=0", "value").empty());
  CHECK(pmi_field("xcmd=1 cmd=2", "cmd") == "2");
  CHECK(pmi_field("rc= cmd=2", "rc").empty());
  CHECK(pmi_field("", "rc").empty());
  CHECK(pmi_field("   rc=1   ", "rc") == "1");
}

TEST_CASE("a rank puts, waits for the others and gets") {
  Script script({"cmd=my_kvsname kvsname=kvs_1\n", "cmd=put_result rc=0 msg=success\n", "cmd=barrier_out\n",
                 "cmd=get_result rc=0 msg=success value=abc\n"});
  Pmi pmi(script.rank.get());
  const Deadline deadline = Deadline::in_ms(20'000);
  pmi.put("k", "v", deadline);
  pmi.barrier(deadline);
  CHECK(pmi.get("k", deadline) == "abc");
  script.join();
  CHECK(script.asked == std::vector<std::string>{"cmd=get_my_kvsname\n", "cmd=put kvsname=kvs_1 key=k value=v\n",
                                                 "cmd=barrier_in\n", "cmd=get kvsname=kvs_1 key=k\n"});
}

TEST_CASE("what a launcher answers wrongly is named") {
  const auto getting = [](std::vector<std::string> answers) {
    Script script(std::move(answers));
    return error_of([&] { Pmi(script.rank.get()).get("k", Deadline::in_ms(20'000)); });
  };
  CHECK_THAT(getting({}), Catch::Contains("the launcher"));
  CHECK_THAT(getting({"cmd=my_kvsname kvsname=\n"}), Catch::Contains("it has no name"));
  CHECK_THAT(getting({"cmd=barrier_out\n"}),
             Catch::Contains("the answer to \"get_my_kvsname\" is \"cmd=barrier_out\""));
  CHECK_THAT(getting({"cmd=my_kvsname kvsname=a\n", "cmd=get_result rc=-1 msg=key_k_not_found\n"}),
             Catch::Contains("it has no key k") && Catch::Contains("MASTER_ADDR"));
  CHECK_THAT(getting({std::string(5000, 'x')}), Catch::Contains("has no end"));
  CHECK_THAT(getting({"cmd=my_kvsname"}), Catch::Contains("has closed it"));
}

TEST_CASE("a wait for ranks that do not come ends at the deadline") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd rank(ends[0]), launcher(ends[1]);
  CHECK_THAT(error_of([&] { Pmi(rank.get()).barrier(Deadline::in_ms(50)); }),
             Catch::Contains("not all ranks came in time"));
}
