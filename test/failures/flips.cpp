// Two ranks whose connection goes through a proxy that changes one bit of what passes: each time at least the rank that
// gets it must end with an error that names the peer, the communicator, the operation and the place, and no rank may
// have a wrong result.
//
//   flips N     N changed bits, of which half fall into jobs of small calls, whose bytes are mostly headers
#include <anello/anello.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

[[noreturn]] void give_up(const char* what) {
  std::printf("%s: %s\n", what, std::strerror(errno));
  std::exit(2);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int proxy_port = 0;  // of a rank; 0: this is the proxy

}  // namespace

// The library's connections go to the proxy, which is told where they were to go.
extern "C" __attribute__((visibility("default"))) int connect(int fd, const sockaddr* to, socklen_t bytes) {
  if (proxy_port == 0 || to->sa_family != AF_INET) return static_cast<int>(::syscall(SYS_connect, fd, to, bytes));
  const sockaddr_in proxy = loopback(proxy_port);
  const std::uint16_t port = reinterpret_cast<const sockaddr_in*>(to)->sin_port;
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  const bool there = ::syscall(SYS_connect, fd, &proxy, sizeof proxy) == 0 &&
                     ::send(fd, &port, sizeof port, MSG_NOSIGNAL) == sizeof port;
  const int error = errno;
  ::fcntl(fd, F_SETFL, flags);
  errno = error;
  return there ? 0 : -1;
}

namespace {

// ---- A rank ----

constexpr std::size_t kLarge = 60'000;

// False: a call has failed. wrong: some result is not what it has to be.
bool do_calls(anello_comm_t comm, int rank, bool small, bool& wrong) {
  const std::size_t count = small ? 4 : kLarge;
  std::vector<float> sum(count), all(2 * count), in(count, 1.0f), got(count);
  for (int round = 0; round < (small ? 40 : 3); ++round) {
    std::fill(sum.begin(), sum.end(), float(rank + round));
    if (anello_allreduce(ANELLO_IN_PLACE, sum.data(), count, ANELLO_FLOAT32, ANELLO_SUM, comm) != ANELLO_OK)
      return false;
    wrong = wrong || std::any_of(sum.begin(), sum.end(), [&](float x) { return x != float(2 * round + 1); });
    std::fill(in.begin(), in.end(), float(rank + 10 * round));
    if (anello_allgather(in.data(), all.data(), count, ANELLO_FLOAT32, comm) != ANELLO_OK) return false;
    for (std::size_t i = 0; i < 2 * count; ++i) wrong = wrong || all[i] != float(int(i / count) + 10 * round);
    if (anello_sendrecv(in.data(), count, 1 - rank, 5, got.data(), count, 1 - rank, 5, ANELLO_FLOAT32, comm, nullptr) !=
        ANELLO_OK)
      return false;
    wrong = wrong || std::any_of(got.begin(), got.end(), [&](float x) { return x != float(1 - rank + 10 * round); });
  }
  for (int round = 0; round < 4; ++round) {
    if (anello_barrier(comm) != ANELLO_OK) return false;
  }
  return true;
}

// A line for each job: "CODE WRONG TEXT".
int run_rank(int rank, int commands, int answers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string url = "unix://flips-" + std::to_string(::getppid());
  for (char kind = 0; ::read(commands, &kind, 1) == 1 && kind != 'q';) {
    anello_config_t config = ANELLO_CONFIG_INITIALIZER;
    config.rank = rank;
    config.world_size = 2;
    config.url = url.c_str();
    config.transports = "tcp";
    config.timeout_ms = 15'000;
    anello_comm_t comm = ANELLO_COMM_NULL;
    bool wrong = false;
    std::string line;
    if (anello_comm_create(&config, &comm) != ANELLO_OK) {
      line = std::string("NOT_CREATED 0 ") + anello_last_error(ANELLO_COMM_NULL);
    } else {
      anello_error_t error = ANELLO_ERROR_INITIALIZER;
      const bool fine = do_calls(comm, rank, kind == 's', wrong);
      if (!fine) anello_error_info(comm, &error);
      line = std::string(anello_result_name(fine ? ANELLO_OK : error.code)) + (fine && wrong ? " 1 " : " 0 ") +
             (fine ? "" : error.text);
      anello_comm_destroy(comm);
    }
    line += '\n';
    if (::write(answers, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 1;
  }
  return 0;
}

// ---- The proxy ----

struct Way {
  int from = -1, to = -1;
  std::uint64_t passed = 0;
  std::uint64_t flip_at = ~std::uint64_t{0};  // bit of the stream
  bool flipped = false;
  bool open = true;
};

// One piece; false: there was none.
bool pass(Way& way) {
  static std::vector<unsigned char>& piece = *new std::vector<unsigned char>(256 * 1024);
  const ssize_t got = ::recv(way.from, piece.data(), piece.size(), 0);
  if (got <= 0) {
    ::shutdown(way.to, SHUT_WR);
    way.open = false;
    return false;
  }
  const std::uint64_t byte = way.flip_at / 8;
  if (byte >= way.passed && byte < way.passed + std::uint64_t(got)) {
    piece[byte - way.passed] ^= static_cast<unsigned char>(1u << way.flip_at % 8);
    way.flipped = true;
  }
  way.passed += std::uint64_t(got);
  for (ssize_t done = 0; done < got;) {
    const ssize_t sent = ::send(way.to, piece.data() + done, std::size_t(got - done), MSG_NOSIGNAL);
    if (sent < 0) {
      way.open = false;
      return false;
    }
    done += sent;
  }
  return true;
}

struct Rank {
  pid_t pid;
  int commands, answers;
  std::string heard;
};

class Proxy {
 public:
  Proxy() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
      give_up("listening");
    }
    port = ntohs(address.sin_port);
  }

  // Until both ranks have answered; false: they have not within 40 s. There: by whom the connection was made.
  bool run(std::vector<Rank>& ranks, std::vector<std::string>& lines, std::uint64_t flip_there,
           std::uint64_t flip_back) {
    std::vector<Way> ways;
    lines.assign(2, "");
    there = back = 0;
    flipped = false;
    for (int idle = 0; lines[0].empty() || lines[1].empty();) {
      std::vector<pollfd> look{{listener_, POLLIN, 0}, {ranks[0].answers, POLLIN, 0}, {ranks[1].answers, POLLIN, 0}};
      for (const Way& way : ways) look.push_back({way.open ? way.from : -1, POLLIN, 0});
      if (::poll(look.data(), look.size(), 1000) == 0) {
        if (++idle == 40) return false;
        continue;
      }
      idle = 0;
      for (std::size_t i = 0; i < ways.size(); ++i) {
        if (look[3 + i].revents != 0) pass(ways[i]);
      }
      if (look[0].revents != 0) accept_one(ways, flip_there, flip_back);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        if (look[1 + rank].revents == 0) continue;
        char part[4096];
        const ssize_t got = ::read(ranks[rank].answers, part, sizeof part);
        if (got <= 0) return false;
        ranks[rank].heard.append(part, std::size_t(got));
        if (const std::size_t end = ranks[rank].heard.find('\n'); end != std::string::npos) {
          lines[rank] = ranks[rank].heard.substr(0, end);
          ranks[rank].heard.erase(0, end + 1);
        }
      }
    }
    for (std::size_t i = 0; i < ways.size(); ++i) {
      (i % 2 == 0 ? there : back) += ways[i].passed;
      flipped = flipped || ways[i].flipped;
      ::close(ways[i].from);
    }
    return true;
  }

  int port = 0;
  std::uint64_t there = 0, back = 0;  // bytes of the last run
  bool flipped = false;

 private:
  void accept_one(std::vector<Way>& ways, std::uint64_t flip_there, std::uint64_t flip_back) const {
    const int from = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    std::uint16_t target = 0;
    if (from < 0 || ::recv(from, &target, sizeof target, MSG_WAITALL) != sizeof target) give_up("accepting");
    const int to = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(ntohs(target));
    if (::connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) give_up("connecting");
    const int one = 1;
    for (const int fd : {from, to}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Way way{from, to}, other{to, from};
    way.flip_at = flip_there;
    other.flip_at = flip_back;
    ways.push_back(way);
    ways.push_back(other);
  }
  int listener_;
};

Rank start(int rank, int port) {
  int commands[2], answers[2];
  if (::pipe2(commands, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) give_up("pipe");
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) {
    proxy_port = port;
    ::close(commands[1]);
    ::close(answers[0]);
    std::_Exit(run_rank(rank, commands[0], answers[1]));
  }
  ::close(commands[0]);
  ::close(answers[1]);
  return {pid, commands[1], answers[0], {}};
}

bool names_all(const std::string& line) {
  const auto says = [&](const char* word) { return line.find(word) != std::string::npos; };
  return line.rfind("ANELLO_ERR_CORRUPT ", 0) == 0 && says("rank ") && says("communicator ") && says("operation ") &&
         says("at byte ");
}

}  // namespace

int main(int count, char** words) {
  const int wanted = count > 1 ? std::atoi(words[1]) : 100;
  ::setenv("ANELLO_LOG", "off", 1);
  ::setenv("ANELLO_CHECKSUM", "all", 0);
  // What comes before data on a lane: greeting and verdict, and the listener's word; claim, and the dialler's
  // (docs/protocol.md).
  constexpr std::uint64_t kBackBefore = 48 + 48 + 1, kThereBefore = 128 + 1;
  Proxy proxy;
  std::vector<Rank> ranks{start(0, proxy.port), start(1, proxy.port)};
  std::vector<std::string> lines;
  std::mt19937_64 random(count > 2 ? std::strtoull(words[2], nullptr, 10) : 1);
  int found = 0, missed = 0, jobs = 0;
  std::uint64_t volume[2][2] = {};
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const auto run = [&](bool small, std::uint64_t there, std::uint64_t back) {
    ++jobs;
    for (const Rank& rank : ranks) {
      if (::write(rank.commands, small ? "s" : "l", 1) != 1) give_up("write");
    }
    if (!proxy.run(ranks, lines, there, back)) {
      std::printf("the ranks do not answer\n");
      for (const Rank& rank : ranks) ::kill(rank.pid, SIGKILL);
      std::exit(1);
    }
  };
  for (const bool small : {false, true}) {
    run(small, kNone, kNone);
    if (lines[0] != "ANELLO_OK 0 " || lines[1] != "ANELLO_OK 0 ") {
      std::printf("without a change: %s; %s\n", lines[0].c_str(), lines[1].c_str());
      missed = 1;
    }
    volume[small][0] = proxy.there - kThereBefore;
    volume[small][1] = proxy.back - kBackBefore;
  }
  std::string example;
  while (found + missed < wanted && jobs < 2 * wanted + 20) {
    const bool small = random() % 2 != 0, there = random() % 2 != 0;
    // What comes last may never be looked at.
    const std::uint64_t byte =
        (there ? kThereBefore : kBackBefore) + random() % (volume[small][there ? 0 : 1] * 8 / 10);
    const std::uint64_t bit = 8 * byte + random() % 8;
    run(small, there ? bit : kNone, there ? kNone : bit);
    const bool wrong = std::any_of(lines.begin(), lines.end(),
                                   [](const std::string& line) { return line.rfind("ANELLO_OK 1", 0) == 0; });
    if (!proxy.flipped && !wrong) continue;
    if (!wrong && (names_all(lines[0]) || names_all(lines[1]))) {
      ++found;
      example = names_all(lines[0]) ? lines[0] : lines[1];
      continue;
    }
    if (++missed <= 5)
      std::printf("bit %llu %s, not found: %s; %s\n", (unsigned long long)bit, there ? "there" : "back",
                  lines[0].c_str(), lines[1].c_str());
  }
  for (const Rank& rank : ranks) {
    if (::write(rank.commands, "q", 1) != 1) give_up("write");
    ::waitpid(rank.pid, nullptr, 0);
  }
  std::printf("%s\n%d of %d changed bits found and named, in %d jobs\n", example.c_str(), found, found + missed, jobs);
  return missed == 0 && found >= wanted ? 0 : 1;
}
