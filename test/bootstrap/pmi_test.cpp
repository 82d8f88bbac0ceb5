// The launcher's key space against a scripted launcher; test/tools/foreign_launchers_test.py has the real one.
#include "bootstrap/pmi.h"
#include "bootstrap/scripted_launcher.h"
#include "support/catch.h"

#include <string>
#include <utility>
#include <vector>

using namespace anello;
using namespace anello::bootstrap;
using anello::bootstrap::test::error_of;
using anello::bootstrap::test::ScriptedLauncher;

TEST_CASE("fields of an answer are found by their whole names") {
  CHECK(pmi_field("cmd=get_result rc=0 msg=success value=x=y", "value") == "x=y");
  CHECK(pmi_field("cmd=get_result rc=0", "value").empty());
  CHECK(pmi_field("xcmd=1 cmd=2", "cmd") == "2");
  CHECK(pmi_field("rc= cmd=2", "rc").empty());
  CHECK(pmi_field("", "rc").empty());
  CHECK(pmi_field("   rc=1   ", "rc") == "1");
}

TEST_CASE("a rank puts, waits for the others and gets") {
  ScriptedLauncher script({"cmd=my_kvsname kvsname=kvs_1\n", "cmd=put_result rc=0 msg=success\n", "cmd=barrier_out\n",
                           "cmd=get_result rc=0 msg=success value=abc\n", "cmd=finalize_ack\n"});
  Pmi pmi(script.descriptor());
  const Deadline deadline = Deadline::in_ms(20'000);
  pmi.put("k", "v", deadline);
  pmi.barrier(deadline);
  CHECK(pmi.get("k", deadline) == "abc");
  pmi.finalise(deadline);
  CHECK(script.asked() == std::vector<std::string>{"cmd=get_my_kvsname\n", "cmd=put kvsname=kvs_1 key=k value=v\n",
                                                   "cmd=barrier_in\n", "cmd=get kvsname=kvs_1 key=k\n",
                                                   "cmd=finalize\n"});
}

TEST_CASE("what a launcher answers wrongly is named") {
  const auto getting = [](std::vector<std::string> answers) {
    ScriptedLauncher script(std::move(answers));
    return error_of([&] { Pmi(script.descriptor()).get("k", Deadline::in_ms(20'000)); });
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
  const ScriptedLauncher silent({}, ScriptedLauncher::End::stays);
  CHECK_THAT(error_of([&] { Pmi(silent.descriptor()).barrier(Deadline::in_ms(50)); }),
             Catch::Contains("not all ranks came in time"));
}
