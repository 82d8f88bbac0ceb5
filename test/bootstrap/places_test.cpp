// Every way to a meeting place: the environment, a store, ids; and what is refused.
#include "bootstrap/launcher.h"
#include "bootstrap/rank_handle.h"
#include "bootstrap/secret_source.h"
#include "bootstrap/thread_ranks.h"
#include "bootstrap/unique_id.h"
#include "control/interfaces.h"
#include "support/catch.h"

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include <sys/mman.h>
#include <sys/stat.h>

using namespace anello;
using namespace anello::bootstrap;
using anello::control::Address;
using anello::testing::join_command;
using anello::testing::join_threads;
using anello::testing::Joined;
using anello::testing::RankHandle;
using Catch::Matchers::Contains;

namespace {

struct MemoryStore {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;

  anello_store_t face() {
    return {this,
            [](void* context, const char* key, const void* value, std::size_t bytes) {
      auto& self = *static_cast<MemoryStore*>(context);
      const std::lock_guard lock(self.mutex);
      const bool fresh = self.values.emplace(key, std::string(static_cast<const char*>(value), bytes)).second;
      self.changed.notify_all();
      return fresh ? 0 : 1;
            },
            [](void* context, const char* key, void* value, std::size_t* bytes, std::int64_t timeout_ms) {
      auto& self = *static_cast<MemoryStore*>(context);
      std::unique_lock lock(self.mutex);
      if (!self.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                 [&] { return self.values.contains(key); })) {
        return 1;
      }
      const std::string& stored = self.values[key];
      *bytes = std::min(*bytes, stored.size());
      std::memcpy(value, stored.data(), *bytes);
      return 0;
    }};
  }
};

Launch launch_from(const std::map<std::string, std::string>& environment, int rank = -1, int size = -1) {
  return read_launch(
      [&](const char* name) -> const char* {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      rank, size);
}

// A port that was free a moment ago.
int free_port() {
  bool in_use = false;
  const UniqueFd socket = control::listen_at({"", "127.0.0.1", 0}, in_use);
  return control::local_address(socket.get()).port;
}

struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const std::string& content, mode_t mode) {
    char name[] = "/tmp/anello-test-XXXXXX";
    const UniqueFd file(::mkstemp(name));
    path = name;
    REQUIRE(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    REQUIRE(::fchmod(file.get(), mode) == 0);
  }
  ~TemporaryFile() { ::unlink(path.c_str()); }
};

}  // namespace

TEST_CASE("a lone rank needs no place, no thread and no socket") {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  const auto job = join(config);
  CHECK(job->size() == 1);
  CHECK(!job->arena());
  CHECK(job->members().size() == 1);
  CHECK(job->wake_descriptor() >= 0);
  CHECK(job->describe(0).find("rank 0 (host ") == 0);
}

TEST_CASE("ranks meet through the caller's store, again and again over one store") {
  MemoryStore store;
  const anello_store_t face = store.face();
  for (int round = 0; round < 3; ++round) {
    const std::vector<Joined> ranks = join_threads(4, [&](int, anello_config_t& config) { config.store = &face; });
    for (const Joined& rank : ranks) {
      INFO(rank.error.text());
      CHECK(rank.job);
    }
  }
  CHECK(store.values.size() == 3);
}

TEST_CASE("a store without rank 0 is named when the deadline passes") {
  MemoryStore store;
  const anello_store_t face = store.face();
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 1;
  config.world_size = 2;
  config.timeout_ms = 50;
  config.store = &face;
  const Joined joined = anello::testing::join_one(config);
  CHECK(joined.error.code() == ANELLO_ERR_RENDEZVOUS);
  CHECK_THAT(joined.error.text(), Contains("rank 0 of 2 did not come"));
}

TEST_CASE("a store that fails is named at once, with what it returned") {
  const anello_store_t face = {nullptr, [](void*, const char*, const void*, std::size_t) { return 5; },
                               [](void*, const char*, void*, std::size_t*, std::int64_t) { return 7; }};
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.world_size = 2;
  config.timeout_ms = 20'000;
  config.store = &face;
  config.rank = 1;
  const Joined got = anello::testing::join_one(config);
  CHECK(got.error.code() == ANELLO_ERR_RENDEZVOUS);
  CHECK_THAT(got.error.text(), Contains("get(\"anello/0\") failed with 7"));
  config.rank = 0;
  CHECK_THAT(anello::testing::join_one(config).error.text(), Contains("set(\"anello/0\") failed with 5"));
}

TEST_CASE("an id serves one creation; after that, and with bytes that are none, it is an error at once") {
  const anello_unique_id_t id = make_unique_id(true);
  const auto with_id = [&](int, anello_config_t& config) { config.unique_id = &id; };
  for (const Joined& rank : join_threads(2, with_id)) REQUIRE(rank.job);
  for (const Joined& rank : join_threads(2, with_id)) CHECK(rank.error.code() == ANELLO_ERR_RENDEZVOUS);
  anello_unique_id_t nothing{};
  for (const Joined& rank : join_threads(2, [&](int, anello_config_t& config) { config.unique_id = &nothing; })) {
    CHECK(rank.error.code() == ANELLO_ERR_ARGUMENT);
  }
}

TEST_CASE("an id carries its secret and its address") {
  const FreshMeeting fresh = fresh_meeting("");
  const Meeting decoded = decode_id(encode_id(fresh, {"", "fe80::1%lo", 4711}));
  CHECK(decoded.job == fresh.meeting.job);
  CHECK(control::equal(decoded.key.bytes(), fresh.meeting.key.bytes()));
  CHECK(decoded.reach == std::vector<Address>{fresh.meeting.listen.front(), {"", "fe80::1%lo", 4711}});
  CHECK(fresh_meeting("").meeting.job != fresh.meeting.job);
}

TEST_CASE("processes meet by MASTER_ADDR and MASTER_PORT, also where another program holds the port") {
  bool in_use = false;
  const int port = free_port();
  const UniqueFd squatter = control::listen_at({"", "127.0.0.1", static_cast<std::uint16_t>(port)}, in_use);
  std::vector<RankHandle> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back(std::map<std::string, std::string>{{"MASTER_ADDR", rank == 1 ? "localhost" : "127.0.0.1"},
                                                          {"MASTER_PORT", std::to_string(port)}});
  }
  for (int rank = 0; rank < 3; ++rank) ranks[std::size_t(rank)].tell(join_command("env://", rank, 3));
  for (RankHandle& rank : ranks) CHECK_THAT(rank.hear(""), Contains("joined"));
}

TEST_CASE("with a secret ranks meet at an address of the network too; a rank with another secret is refused") {
  const std::string ip = control::source_towards("192.0.2.1");
  if (ip.empty() || anello::is_loopback(ip)) {
    WARN("SKIPPED: this machine has no address but loopback");
    return;
  }
  const TemporaryFile secret("a secret of thirty-two characters", 0600),
      other("another of thirty-two characters..", 0600);
  const std::string url = "tcp://" + ip + ":" + std::to_string(free_port());
  std::vector<RankHandle> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back(
        std::map<std::string, std::string>{{"ANELLO_SECRET_FILE", rank == 2 ? other.path : secret.path}});
  }
  for (int rank = 0; rank < 3; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 3, 2'000));
  CHECK_THAT(ranks[2].hear(""), Contains("ANELLO_ERR_AUTH") && Contains("secret"));
  for (const int rank : {0, 1}) CHECK_THAT(ranks[std::size_t(rank)].hear(""), Contains("rank 2 of 3 did not come"));
}

TEST_CASE("a place on another host without a secret is refused, and says how to give one") {
  RankHandle rank;
  rank.tell(join_command("tcp://192.0.2.1:4000", 1, 2, 5'000));
  CHECK_THAT(rank.hear("error"),
             Contains("ANELLO_ERR_AUTH") && Contains("ANELLO_SECRET_FILE") && Contains("anellorun"));
}

TEST_CASE("urls, transports and names that cannot be are named") {
  RankHandle rank;
  CHECK_THAT(rank.ask("join http://x 0 2 1000 -", "error"), Contains("ANELLO_ERR_ARGUMENT") && Contains("http://x"));
  CHECK_THAT(rank.ask("join tcp://x 0 2 1000 -", "error"),
             Contains("ANELLO_ERR_ARGUMENT") && Contains("tcp://host:port"));
  CHECK_THAT(rank.ask("join unix://x 0 2 1000 shm,smoke", "error"),
             Contains("ANELLO_ERR_ARGUMENT") && Contains("smoke"));
  CHECK_THAT(rank.ask("join env:// 0 2 1000 -", "error"), Contains("ANELLO_ERR_ARGUMENT") && Contains("MASTER_ADDR"));
}

TEST_CASE("a pair without a common transport fails creation on all ranks, and is named") {
  const std::string url = anello::testing::fresh_url();
  std::vector<RankHandle> ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks[std::size_t(rank)].tell(join_command(url, rank, 3, 30'000, rank == 1 ? "tcp" : "shm"));
  }
  for (RankHandle& rank : ranks) {
    CHECK_THAT(rank.hear("error"), Contains("rank 0 (") && Contains("rank 1 (") && Contains("no transport in common"));
  }
}

TEST_CASE("ranks in a mixed world take the best transport that each pair may use") {
  const std::string url = anello::testing::fresh_url();
  std::vector<RankHandle> ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks[std::size_t(rank)].tell(join_command(url, rank, 3, 30'000, rank == 1 ? "tcp" : "shm,tcp"));
  }
  CHECK(ranks[0].hear("") == "joined - tcp shm");
  CHECK(ranks[1].hear("") == "joined tcp - tcp");
  CHECK(ranks[2].hear("") == "joined shm tcp -");
}

TEST_CASE("the launcher's variables are read in order, and bad ones named") {
  CHECK(launch_from({}).size == 1);
  const Launch torch = launch_from({{"RANK", "1"},
                                    {"WORLD_SIZE", "4"},
                                    {"LOCAL_WORLD_SIZE", "4"},
                                    {"PMI_RANK", "3"},
                                    {"PMI_SIZE", "9"},
                                    {"MASTER_ADDR", "h"},
                                    {"MASTER_PORT", "29500"}});
  CHECK((torch.rank == 1 && torch.size == 4 && torch.all_local && torch.master_host == "h" &&
         torch.master_port == 29500));
  const Launch ompi =
      launch_from({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"PMIX_NAMESPACE", "j"}});
  CHECK((ompi.rank == 2 && ompi.size == 3 && !ompi.all_local && ompi.scheduler_job == "PMIX_NAMESPACE=j"));
  std::map<std::string, std::string> mpiexec{
      {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALNRANKS", "1"}, {"PMI_FD", "7"}};
  CHECK((launch_from(mpiexec).key_space.descriptor == 7 && launch_from(mpiexec).key_space.version == 1));
  CHECK(launch_from(mpiexec).several_hosts);
  mpiexec.insert({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}});
  CHECK_FALSE(launch_from(mpiexec).key_space);
  // srun --mpi=pmi2 on two nodes.
  std::map<std::string, std::string> pmi2{
      {"PMI_RANK", "2"},      {"PMI_SIZE", "3"},     {"PMI_FD", "7"},
      {"PMI_JOBID", "11.0"},  {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"},
      {"SLURM_JOB_ID", "11"}, {"SLURM_NNODES", "2"}, {"SLURM_JOB_NODELIST", "n[4-5]"}};
  const Launch srun = launch_from(pmi2);
  CHECK((srun.rank == 2 && srun.several_hosts && srun.master_host == "n4"));
  CHECK((srun.key_space.descriptor == 7 && srun.key_space.version == 2 && srun.key_space.job == "11.0"));
  pmi2.insert({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}});
  CHECK_FALSE(launch_from(pmi2).key_space);
  CHECK(launch_from({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}}).rank == 5);
  CHECK(launch_from({{"RANK", "1"}, {"WORLD_SIZE", "4"}}, 0, 2).rank == 0);
  const auto refused = [](const std::map<std::string, std::string>& environment, const std::string& named) {
    try {
      launch_from(environment);
      FAIL("accepted: " << named);
    } catch (const Error& error) {
      CHECK(error.code() == ANELLO_ERR_ARGUMENT);
      CHECK_THAT(error.text(), Contains(named));
    }
  };
  refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK=4");
  refused({{"RANK", "x"}, {"WORLD_SIZE", "4"}}, "RANK=x");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE=0");
  refused({{"RANK", "0"}}, "WORLD_SIZE");
  refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}, "MASTER_PORT");
  // Who meets elsewhere is not held to it: some programs set the one and not the other.
  const Launch elsewhere =
      read_launch([](const char* name) { return std::string(name) == "MASTER_ADDR" ? "h" : nullptr; }, 0, 2, false);
  CHECK(elsewhere.master_host.empty());
  refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT=70000");
}

TEST_CASE("a secret file is taken only if nobody else can read it") {
  const std::string content = "a secret of thirty-two characters";
  const TemporaryFile good(content, 0600), open(content, 0640), brief("short", 0600);
  CHECK_NOTHROW(secret_from_file(good.path));
  CHECK_THROWS_WITH(secret_from_file(open.path), Contains("chmod 600"));
  CHECK_THROWS_WITH(secret_from_file(brief.path), Contains("5 bytes"));
  CHECK_THROWS_WITH(secret_from_file("/nonexistent/secret"), Contains("open"));
  CHECK_THROWS_WITH(secret_from_file("/tmp"), Contains("regular file"));
  const std::string link = good.path + "-link";
  REQUIRE(::symlink(good.path.c_str(), link.c_str()) == 0);
  CHECK_THROWS_WITH(secret_from_file(link), Contains("symbolic link"));
  ::unlink(link.c_str());
}

TEST_CASE("a secret comes from a pipe or a memfd, and is the same for all who inherit that") {
  const std::string secret(32, 's');
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reading(ends[0]), writing(ends[1]);
  REQUIRE(::write(writing.get(), secret.data(), secret.size()) == 32);
  // The writer is still open: what anellorun wrote must do.
  const control::Key from_pipe = secret_from_descriptor(reading.get());
  const UniqueFd memory(::memfd_create("secret", MFD_CLOEXEC));
  REQUIRE(::write(memory.get(), secret.data(), secret.size()) == 32);
  for (int reader = 0; reader < 2; ++reader) {
    CHECK(control::equal(secret_from_descriptor(memory.get()).bytes(), from_pipe.bytes()));
  }
  CHECK_THROWS_WITH(secret_from_descriptor(-1), Contains("no such descriptor"));
}
