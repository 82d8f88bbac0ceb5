// A rank as a process of its own, led by a test over its standard input; says what happens on its standard output.
//   join URL RANK SIZE TIMEOUT_MS TRANSPORTS|- -> "joined TRANSPORT_OF_EACH_PEER" or "error CODE TEXT"
//   lane PEER | comm ID RANKS.. | call SEQUENCE KIND COUNT | compare ID SEQUENCE | remove ID | fork | fds | leave
//   network (go to one of one's own) | squat PORT | listeners
// Events: "lane PEER", after both ends have shown their numbers; "lost PEER TEXT"; "left PEER"; "failed ID CODE TEXT".
#include "base/text.h"
#include "bootstrap/join.h"
#include "control/address.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace anello;
using namespace anello::control;

std::unique_ptr<Job> job;
Ledger ledger;

void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void join(std::istringstream& words) {
  std::string url, transports;
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  words >> url >> config.rank >> config.world_size >> config.timeout_ms >> transports;
  config.url = url.c_str();
  if (transports != "-") config.transports = transports.c_str();
  try {
    job = bootstrap::join(config);
    std::string line = "joined";
    for (const Member& member : job->members()) line += text(" ", member.transport);
    say(line);
  } catch (const Error& error) {
    say(std::string("error ") + result_name(error.code()) + " " + error.text());
  }
}

// The other end is who it should be.
void show_numbers(int peer, const UniqueFd& lane) {
  const int own = job->rank();
  int other = -1;
  if (::send(lane.get(), &own, sizeof own, MSG_NOSIGNAL) != sizeof own)
    return say("lane-broken " + std::to_string(peer));
  pollfd look{lane.get(), POLLIN, 0};
  ::poll(&look, 1, 20'000);
  if (::recv(lane.get(), &other, sizeof other, 0) != sizeof other || other != peer) {
    return say("lane-broken " + std::to_string(peer));
  }
  say("lane " + std::to_string(peer));
}

void tell_events() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(job->wake_descriptor(), &count, sizeof count);
  static std::vector<UniqueFd> kept;
  for (Event& event : job->take_events()) {
    switch (event.kind) {
      case Event::Kind::lane:
        show_numbers(event.peer, event.fd);
        kept.push_back(std::move(event.fd));
        break;
      case Event::Kind::lost: say("lost " + std::to_string(event.peer) + " " + event.error.text()); break;
      case Event::Kind::left: say("left " + std::to_string(event.peer)); break;
      case Event::Kind::failed:
        say("failed " + std::to_string(event.communicator) + " " + result_name(event.error.code()) + " " +
            event.error.text());
        break;
      case Event::Kind::region: break;
    }
  }
}

void fork_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  say("forked " + std::to_string(child));
}

void enter_own_network() {
  say(::unshare(CLONE_NEWNET) == 0 ? "network" : "no network");
}

void squat(std::istringstream& words) {
  int port = 0;
  words >> port;
  bool in_use = false;
  static UniqueFd squatter;
  squatter = listen_at({"", "0.0.0.0", static_cast<std::uint16_t>(port)}, in_use);
  say(squatter ? "ok" : "in use");
}

// Sockets that listen in this network namespace, as the kernel lists them.
void count_listeners() {
  int count = 0;
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) count += line.find(" 0A ") != std::string::npos;
  }
  say("listeners " + std::to_string(count));
}

void count_fds() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  say("fds " + std::to_string(count));
}

void obey(const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  if (command == "join") {
    join(words);
  } else if (command == "fork") {
    fork_child();
  } else if (command == "fds") {
    count_fds();
  } else if (command == "network") {
    enter_own_network();
  } else if (command == "squat") {
    squat(words);
  } else if (command == "listeners") {
    count_listeners();
  } else if (command == "leave") {
    job.reset();
    say("gone");
  } else if (job && command == "lane") {
    int peer = -1;
    words >> peer;
    job->request_lane(peer);
  } else if (job && command == "comm") {
    std::uint64_t id = 0;
    std::vector<int> ranks;
    words >> id;
    for (int rank; words >> rank;) ranks.push_back(rank);
    job->add_communicator(id, ranks, &ledger);
    say("ok");
  } else if (job && command == "call") {
    CallRecord record;
    words >> record.sequence >> record.kind >> record.count;
    static std::uint64_t chain = 0;
    record.digest = chain = chain * 31 + digest_of(record);
    ledger.note(record);
    say("ok");
  } else if (job && command == "compare") {
    std::uint64_t id = 0;
    std::uint32_t sequence = 0;
    words >> id >> sequence;
    job->compare_calls(id, sequence);
  } else if (job && command == "remove") {
    std::uint64_t id = 0;
    words >> id;
    job->remove_communicator(id);
    say("ok");
  } else {
    say("what? " + line);
  }
}

}  // namespace

int main() {
  ::alarm(100);  // a test that went wrong leaves nothing behind
  std::string pending;
  for (;;) {
    pollfd look[2] = {{0, POLLIN, 0}, {job ? job->wake_descriptor() : -1, POLLIN, 0}};
    if (::poll(look, 2, -1) < 0) continue;
    if (look[1].revents != 0) tell_events();
    if (look[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t got = ::read(0, buffer, sizeof buffer);
    if (got <= 0) break;
    pending.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos;) {
      const std::string line = pending.substr(0, end);
      pending.erase(0, end + 1);
      obey(line);
    }
  }
}
