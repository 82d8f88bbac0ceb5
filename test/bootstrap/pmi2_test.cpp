// PMI-2 against a scripted launcher; slurm_test.py and foreign_launchers_test.py have the real ones.
#include "base/unique_fd.h"
#include "bootstrap/key_space.h"
#include "bootstrap/pmi2.h"
#include "bootstrap/scripted_launcher.h"
#include "support/catch.h"

#include <string>
#include <vector>

#include <dlfcn.h>
#include <sys/socket.h>

using namespace anello;
using namespace anello::bootstrap;
using anello::bootstrap::test::error_of;
using anello::bootstrap::test::ScriptedLauncher;

namespace {

const std::string kInit = "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n";

// A command or an answer with its length, which Slurm writes to the left and Hydra to the right.
std::string framed(const std::string& body, bool left = false) {
  const std::string digits = std::to_string(body.size()), spaces(6 - digits.size(), ' ');
  return (left ? digits + spaces : spaces + digits) + body;
}

const std::string kFull = framed("cmd=fullinit-response;pmi-version=2;rank=1;size=2;rc=0;");

// The error of a get that is answered so, after what an initialisation is answered.
std::string getting(std::vector<std::string> answers, ScriptedLauncher::End end = ScriptedLauncher::End::closes) {
  ScriptedLauncher script(std::move(answers), end);
  return error_of([&] { Pmi2(script.descriptor(), "7.0", 1).get("k", Deadline::in_ms(20'000)); });
}

// The error of a get when nothing follows these answers, which have come before it asks: only the one that is missing
// depends on the time.
std::string getting_late(const std::string& answers) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd rank(ends[0]), launcher(ends[1]);
  REQUIRE(::send(launcher.get(), answers.data(), answers.size(), MSG_NOSIGNAL) == ssize_t(answers.size()));
  return error_of([&] { Pmi2(rank.get(), "7.0", 1).get("k", Deadline::in_ms(50)); });
}

}  // namespace

TEST_CASE("a rank initialises once, puts, waits for the others and gets") {
  const bool left = GENERATE(false, true);
  ScriptedLauncher script(
      {kInit, kFull, framed("cmd=kvs-put-response;rc=0;", left), framed("cmd=kvs-fence-response;rc=0;", left),
       framed("cmd=kvs-get-response;rc=0;found=TRUE;value=abc;", left), framed("cmd=finalize-response;rc=0;", left)});
  Pmi2 pmi(script.descriptor(), "7.0", 1);
  const Deadline deadline = Deadline::in_ms(20'000);
  pmi.put("k", "v", deadline);
  pmi.barrier(deadline);
  CHECK(pmi.get("k", deadline) == "abc");
  pmi.finalise(deadline);
  CHECK(script.asked() == std::vector<std::string>{"cmd=init pmi_version=2 pmi_subversion=0\n",
                                                   framed("cmd=fullinit;pmijobid=7.0;pmirank=1;threaded=FALSE;"),
                                                   framed("cmd=kvs-put;key=k;value=v;"), framed("cmd=kvs-fence;"),
                                                   framed("cmd=kvs-get;jobid=7.0;srcid=-1;key=k;"),
                                                   framed("cmd=finalize;")});
}

TEST_CASE("what a launcher answers wrongly to PMI-2 is named") {
  using Catch::Contains;
  CHECK_THAT(getting({}), Contains("the launcher"));
  CHECK_THAT(getting({"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"}), Contains("does not speak PMI-2"));
  CHECK_THAT(getting({"cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0\n"}),
             Contains("does not speak PMI-2"));
  CHECK_THAT(getting({std::string(5000, 'x')}), Contains("has no end"));
  CHECK_THAT(getting({kInit, framed("cmd=fullinit-response;rc=3;")}), Contains("the answer to \"fullinit\""));
  CHECK_THAT(getting({kInit, kFull, framed("cmd=kvs-fence-response;rc=0;")}), Contains("the answer to \"kvs-get\""));
  CHECK_THAT(getting({kInit, kFull, framed("cmd=kvs-get-response;rc=0;found=FALSE;")}),
             Contains("it has no key k") && Contains("MASTER_ADDR"));
}

TEST_CASE("a wrong length of PMI-2 is refused before anything is read") {
  using Catch::Contains;
  for (const char* const wrong : {"      ", "abcdef", "-00012", "12 345", "     0", "0x0010", "cmd=kv"}) {
    INFO(wrong);
    CHECK_THAT(getting({kInit, wrong}, ScriptedLauncher::End::stays),
               Contains(std::string("begins with \"") + wrong + "\" instead of its length"));
  }
  CHECK_THAT(getting({kInit, "999999"}, ScriptedLauncher::End::stays), Contains("999999 bytes, and at most 4096"));
  CHECK_THAT(getting({kInit, "  4097"}, ScriptedLauncher::End::stays), Contains("4097 bytes"));
}

TEST_CASE("an answer of PMI-2 that does not come, or not whole, ends at the deadline") {
  using Catch::Contains;
  CHECK_THAT(getting_late(""), Contains("no answer to init"));
  CHECK_THAT(getting_late(kInit), Contains("no answer to fullinit"));
  CHECK_THAT(getting_late(kInit + "   "), Contains("no answer to fullinit"));
  CHECK_THAT(getting_late(kInit + kFull + "    40cmd=kvs-get-resp"), Contains("no answer to kvs-get"));
  CHECK_THAT(getting({kInit, kFull, "    40cmd=kvs-get-resp"}), Contains("has closed it"));
  ScriptedLauncher script({kInit, kFull, framed("cmd=kvs-put-response;rc=0;")}, ScriptedLauncher::End::stays);
  Pmi2 pmi(script.descriptor(), "", 0);
  pmi.put("k", "v", Deadline::in_ms(20'000));
  CHECK_THAT(error_of([&] { pmi.barrier(Deadline::in_ms(50)); }), Contains("not all ranks came in time"));
  // The answer may still come, to a question that it does not belong to.
  CHECK_THAT(error_of([&] { pmi.barrier(Deadline::in_ms(20'000)); }), Contains("had no right answer"));
}

TEST_CASE("an MPI library in the process is seen, however it was loaded") {
  CHECK_FALSE(has_mpi());
  void* const loaded = ::dlopen(MPI_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(loaded != nullptr);
  CHECK(has_mpi());
  ::dlclose(loaded);
}
