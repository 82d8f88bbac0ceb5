// A job that was killed leaves nothing: no process, no socket, no file. Counted in namespaces of its own, where nobody
// else makes or removes any.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace failures;

namespace {

const Role enduring("enduring", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::vector<float> numbers(100'000, 1);
  for (bool first = true;; first = false) {
    if (anello_allreduce(ANELLO_IN_PLACE, numbers.data(), numbers.size(), ANELLO_FLOAT32, ANELLO_MAX, comm) !=
        ANELLO_OK)
      return;
    if (first) me.say("running ", ::getpid());
  }
});

std::set<std::string> entries(const std::string& folder) {
  std::set<std::string> names;
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) names.insert(entry->d_name);
  ::closedir(directory);
  return names;
}

std::set<std::string> processes() {
  std::set<std::string> numbers;
  for (const std::string& name : entries("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) numbers.insert(name);
  }
  return numbers;
}

// Lines but the heading; for TCP without connections that the kernel lets time out.
std::size_t sockets(const std::string& table) {
  std::ifstream in("/proc/net/" + table);
  std::size_t count = 0;
  std::string line;
  for (std::getline(in, line); std::getline(in, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    constexpr const char* kTimeWait = "06";
    if (table.compare(0, 3, "tcp") != 0 || state != kTimeWait) ++count;
  }
  return count;
}

struct Remains {
  std::set<std::string> tmp = entries("/tmp"), shm = entries("/dev/shm"), running = processes(),
                        mine = entries("/proc/self/fd");
  std::size_t unix_sockets = sockets("unix"), tcp = sockets("tcp"), tcp6 = sockets("tcp6"),
              sysv = sockets("../sysvipc/shm");
  bool operator==(const Remains&) const = default;
};

void reap() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void settles_to(const Remains& before) {
  const std::int64_t end = now_ns() + 5'000'000'000;
  reap();
  while (!(Remains() == before) && now_ns() < end) {
    sleep_ms(20);
    reap();
  }
  const Remains after;
  CHECK(after.running == before.running);
  CHECK(after.tmp == before.tmp);
  CHECK(after.shm == before.shm);
  CHECK(after.mine == before.mine);
  CHECK(after.unix_sockets == before.unix_sockets);
  CHECK(after.tcp == before.tcp);
  CHECK(after.tcp6 == before.tcp6);
  CHECK(after.sysv == before.sysv);
}

void prepare_namespace() {
  REQUIRE(::getpid() == 1);
  REQUIRE(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
  // A build below /tmp stays where it is in the new, else empty one.
  const std::string own = own_path();
  std::string kept;
  int held = -1;
  if (own.rfind("/tmp/", 0) == 0) {
    kept = own.substr(0, own.find('/', 5));
    held = ::open(kept.c_str(), O_PATH | O_DIRECTORY);
    REQUIRE(held >= 0);
  }
  REQUIRE(::mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0);
  if (held >= 0) {
    REQUIRE(::mkdir(kept.c_str(), 0700) == 0);
    REQUIRE(::mount(("/proc/self/fd/" + std::to_string(held)).c_str(), kept.c_str(), nullptr, MS_BIND, nullptr) == 0);
    ::close(held);
  }
  REQUIRE(::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0);
  const int control = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP | IFF_RUNNING;
  REQUIRE(::ioctl(control, SIOCSIFFLAGS, &loopback) == 0);
  ::close(control);
}

void kill_all_ranks(const std::string& transport) {
  const Remains before;
  {
    Ranks job(3, "enduring", transport);
    job.expect_all("running");
    const Remains while_running;
    CHECK(while_running.running.size() == before.running.size() + 3);  // else counting sees nothing
    CHECK(while_running.unix_sockets + while_running.tcp > before.unix_sockets + before.tcp);
    for (int rank = 0; rank < 3; ++rank) job.signal(rank, SIGKILL);
  }
  settles_to(before);
}

void kill_launcher(const std::string& launcher, const std::string& transport) {
  const Remains before;
  int out[2];
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  const pid_t pid =
      start({launcher, "-np", "3", own_path(), "--role", "enduring"}, {{"ANELLO_TRANSPORT", transport}}, -1, out[1]);
  ::close(out[1]);
  std::string heard;
  for (int lines = 0; lines < 3;) {
    char byte = 0;
    REQUIRE(::read(out[0], &byte, 1) == 1);
    heard += byte;
    lines += byte == '\n';
  }
  CHECK(processes().size() >= before.running.size() + 4);
  ::kill(pid, SIGKILL);
  ::close(out[0]);
  settles_to(before);
}

}  // namespace

TEST_CASE("inside its own namespaces a killed job leaves nothing", "[.inside]") {
  prepare_namespace();
  const char* const launcher = std::getenv("FAILURE_LAUNCHER");
  for (const char* transport : {"shm", "tcp"}) {
    INFO(transport);
    kill_all_ranks(transport);
    if (launcher != nullptr) kill_launcher(launcher, transport);
  }
}

TEST_CASE("a job that was killed leaves nothing") {
  const auto enter = [](const std::vector<std::string>& command) {
    std::vector<std::string> whole{"/usr/bin/unshare", "-n", "-m", "-i", "-p", "-f", "--mount-proc"};
    whole.insert(whole.end(), command.begin(), command.end());
    int status = -1;
    ::waitpid(start(whole, {}, -1, -1), &status, 0);
    return status;
  };
  if (::geteuid() != 0 || enter({"/bin/true"}) != 0) {
    std::cout << "SKIPPED: needs root and namespaces of its own (unshare -n -m -i -p -f --mount-proc)" << std::endl;
    return;
  }
  CHECK(enter({own_path(), "[.inside]"}) == 0);
}
