// A host that is cut off in the middle of a collective: nothing that it had sent ends, and nothing says that it is
// gone.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace failures;

namespace {

// ANELLO_SILENCE_MS is 2 s by default; the rest is for a machine with much else to do.
constexpr std::int64_t kLimitMs = 4'000;

const Role cut_off("cut off", [](Rank& me) {
  if (::unshare(CLONE_NEWNET) != 0) return me.say("cannot");
  me.say("network");
  me.hear();
  ::setenv("MASTER_ADDR", "10.79.0.1", 1);
  const anello_comm_t comm = me.create(120'000);
  std::vector<float> numbers(std::size_t(me.number("count", 0)), 1.0f);
  anello_result_t result = ANELLO_OK;
  for (int round = 0; result == ANELLO_OK; ++round) {
    result = anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_FLOAT32, ANELLO_MAX, comm);
    if (round == 0) me.say("running");
  }
  me.report("failed", result, comm);
  me.report("destroyed", anello_comm_destroy(comm), comm);
});

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// "ip ...", in the network of that rank.
bool ip(const Ranks& job, int rank, const std::string& words) {
  return run("nsenter -t " + std::to_string(job.pid(rank)) + " -n ip " + words);
}

bool join_by_cable(const Ranks& job) {
  const std::string a = std::to_string(job.pid(0)), b = std::to_string(job.pid(1));
  bool joined = run("ip link add anello0 netns " + a + " type veth peer name anello0 netns " + b);
  for (int rank = 0; rank < 2 && joined; ++rank) {
    joined = ip(job, rank, "addr add 10.79.0." + std::to_string(rank + 1) + "/24 dev anello0") &&
             ip(job, rank, "link set anello0 up") && ip(job, rank, "link set lo up");
  }
  return joined;
}

// A file that only its owner may read, while it lives.
struct SecretFile {
  std::string path =
      (std::filesystem::temp_directory_path() / ("anello-vanish-" + std::to_string(::getpid()))).string();
  SecretFile() {
    std::ofstream(path) << "a secret of thirty-two characters";
    ::chmod(path.c_str(), 0600);
  }
  ~SecretFile() { ::unlink(path.c_str()); }
};

}  // namespace

TEST_CASE("a host that is cut off is named to the others, though its connections stay open") {
  const SecretFile secret;
  Ranks job(2, "cut off", "tcp", {{"count", "1000000"}, {"ANELLO_SECRET_FILE", secret.path}});
  for (int rank = 0; rank < 2; ++rank) {
    if (job.next(rank).begins("network")) continue;
    WARN("SKIPPED: needs the right to make network namespaces");
    return;
  }
  if (!join_by_cable(job)) {
    WARN("SKIPPED: needs the right to make network interfaces, and the commands ip and nsenter");
    return;
  }
  for (int rank = 0; rank < 2; ++rank) job.tell(rank, "go");
  job.expect_all("running");
  sleep_ms(200);
  const std::int64_t begin = now_ns();
  REQUIRE(ip(job, 1, "link set anello0 down"));
  for (int rank = 0; rank < 2; ++rank) {
    const Line line = job.expect(rank, "failed", 2 * kLimitMs);
    const std::int64_t took_ms = (line.time_ns - begin) / 1'000'000;
    INFO("rank " << rank << " after " << took_ms << " ms: " << line.text);
    CHECK(line.begins("failed ANELLO_ERR_PEER_LOST"));
    CHECK(line.has("rank " + std::to_string(1 - rank) + " (host"));
    CHECK(took_ms < kLimitMs);
  }
  job.expect_all("destroyed ANELLO_ERR_PEER_LOST");
  job.finish();
}
