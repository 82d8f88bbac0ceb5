// A rank as a process of its own, led by a test over its standard input; says what happens on its standard output.
//   join URL RANK SIZE TIMEOUT_MS TRANSPORTS|- -> "joined TRANSPORT_OF_EACH_PEER (-: of itself)" or "error CODE TEXT"
//   lane PEER | comm ID RANKS.. | call SEQUENCE KIND COUNT | compare ID SEQUENCE | remove ID | fork | fds | leave
//   network (go to one of one's own) | squat PORT | listeners | hide PATH | forbid SYSTEM_CALL
//   inherited NAME (is it open in a program that this one starts?) | keys HEX (the secret: where does it stand?)
// Events: "lane PEER", after both ends have shown their numbers; "lost PEER TEXT"; "left PEER"; "failed ID CODE TEXT".
#include "base/text.h"
#include "bootstrap/join.h"
#include "control/address.h"
#include "control/secret.h"
#include "support/call_filter.h"
#include "transports/registry.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace anello;
using namespace anello::control;

std::unique_ptr<Job> job;
recorder::Record record_of_calls{recorder::Identity{}};

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
    for (const Member& member : job->members())
      line += text(" ", member.transport() == 0 ? "-" : anello::transport::transport_names(member.transport()));
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
        show_numbers(event.peer, event.rails.front());
        for (UniqueFd& rail : event.rails) kept.push_back(std::move(rail));
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

void enter_own_network() { say(::unshare(CLONE_NEWNET) == 0 ? "network" : "no network"); }

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

// In a mount namespace of one's own.
void hide(std::istringstream& words) {
  std::string path;
  words >> path;
  const bool hidden = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("none", path.c_str(), "tmpfs", 0, nullptr) == 0;
  say(hidden ? "hidden" : "not hidden");
}

void forbid(std::istringstream& words) {
  unsigned call = 0;
  words >> call;
  say(test::forbid_system_call(call, EPERM) ? "forbidden" : "not forbidden");
}

void tell_inherited(std::istringstream& words) {
  std::string name;
  words >> name;
  const std::string command = "ls -l /proc/self/fd | grep -c " + name;
  FILE* const listing = ::popen(command.c_str(), "r");
  int count = -1;
  if (listing == nullptr || std::fscanf(listing, "%d", &count) != 1) count = -1;
  if (listing != nullptr) ::pclose(listing);
  say(text("inherited ", count));
}

// How often the secret, or the key that comes of it, stands in pages of this process that a core dump contains, and
// whether it stands in others.
void tell_keys(std::istringstream& words) {
  constexpr std::size_t kPart = 1 << 20, kNeedle = 32;
  auto* const work =
      static_cast<std::byte*>(::mmap(nullptr, 2 * kPart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(work, 2 * kPart, MADV_DONTDUMP);
  std::string hex;
  words >> hex;
  std::byte* const secret = work + kPart + kPart / 2;
  for (std::size_t i = 0; i < kNeedle; ++i) {
    secret[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  const Key key = key_from("anello secret", {secret, kNeedle});
  std::ifstream maps("/proc/self/smaps");
  const UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  int dumped = 0, kept = 0, found = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char rights[8] = {};
    if (std::sscanf(line.c_str(), "%zx-%zx %7s", &begin, &end, rights) == 3) {
      found = 0;
      if (rights[0] != 'r' || rights[1] != 'w') continue;
      for (std::uintptr_t at = begin; at < end; at += kPart) {
        const std::size_t bytes = std::min(kPart + kNeedle - 1, end - at);
        const ssize_t got = ::pread(memory.get(), work, bytes, static_cast<off_t>(at));
        if (got <= 0) continue;
        for (const std::byte* needle : {static_cast<const std::byte*>(secret), key.bytes().data()}) {
          const auto next = [&](const std::byte* from) {
            return static_cast<std::byte*>(
                ::memmem(from, static_cast<std::size_t>(work + got - from), needle, kNeedle));
          };
          for (const std::byte* hit = next(work); hit != nullptr; hit = next(hit + 1)) ++found;
        }
      }
    } else if (line.rfind("VmFlags:", 0) == 0) {
      (line.find(" dd") != std::string::npos ? kept : dumped) += found;
    }
  }
  say(text("keys dumped ", dumped, kept > 0 ? ", kept" : ", none kept"));
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
  } else if (command == "hide") {
    hide(words);
  } else if (command == "forbid") {
    forbid(words);
  } else if (command == "inherited") {
    tell_inherited(words);
  } else if (command == "keys") {
    tell_keys(words);
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
    job->add_communicator(id, ranks, &record_of_calls);
    say("ok");
  } else if (job && command == "call") {
    recorder::CallRecord record;
    words >> record.sequence >> record.kind >> record.count;
    static std::uint64_t chain = 0;
    record.digest = chain = chain * 31 + recorder::digest_of(record);
    record_of_calls->ledger.note(record);
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
