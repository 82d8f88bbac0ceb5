// The name of this host, which launchers pass on as MASTER_ADDR.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"

#include "base/network_interfaces.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace info::doctor {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 5s;
constexpr auto kSlow = 1s;

struct LookUp {
  std::vector<std::string> ips;
  std::string why_not;
  std::chrono::milliseconds time{0};
};

LookUp ask_name_service(const std::string& name) {
  LookUp result;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found); error != 0) {
    result.why_not = gai_strerror(error);
    return result;
  }
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char ip[NI_MAXHOST];
    if (getnameinfo(each->ai_addr, each->ai_addrlen, ip, sizeof ip, nullptr, 0, NI_NUMERICHOST) == 0)
      result.ips.push_back(ip);
  }
  freeaddrinfo(found);
  return result;
}

// The name service has no deadline of its own, so it is asked in a thread that may stay behind.
LookUp look_up(const std::string& name) {
  auto answer = std::make_shared<std::promise<LookUp>>();
  std::future<LookUp> future = answer->get_future();
  const auto begin = std::chrono::steady_clock::now();
  std::thread([answer, name] { answer->set_value(ask_name_service(name)); }).detach();
  LookUp result;
  if (future.wait_for(kPatience) == std::future_status::ready) {
    result = future.get();
  } else {
    result.why_not = "the name service does not answer";
  }
  result.time = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  return result;
}

bool is_own(const std::string& ip) {
  const std::vector<anello::NetworkInterface> all = anello::network_interfaces();
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.ip == ip; });
}

std::string to_hosts_file(const std::string& ip, const std::string& name) {
  return "echo '" + ip + " " + name + "' | sudo tee -a /etc/hosts";
}

}  // namespace

Finding host_name() {
  const char* const kName = "host name";
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  const std::string name = own, outward = outward_address();
  const LookUp found = look_up(name);
  if (found.ips.empty()) {
    return warning(kName, name + " has no address: " + found.why_not,
                   "Jobs with MASTER_ADDR=" + name + " do not start, on this host or on others.",
                   to_hosts_file(outward.empty() ? "127.0.1.1" : outward, name));
  }
  const std::string first = found.ips.front();
  const std::string value = name + " is " + first;
  if (anello::is_loopback(first) && !outward.empty()) {
    return warning(kName, value + ", which is the loopback",
                   "Other hosts cannot reach a rank 0 that listens there: a job over several hosts with MASTER_ADDR=" +
                       name + " does not start.",
                   "export MASTER_ADDR=" + outward + "        before such a job; anellorun --hosts needs nothing");
  }
  if (!anello::is_loopback(first) && !is_own(first)) {
    return warning(kName, value + ", which is no address of this host",
                   "Rank 0 cannot listen there: jobs with MASTER_ADDR=" + name + " do not start.",
                   outward.empty() ? to_hosts_file("127.0.1.1", name) : "export MASTER_ADDR=" + outward);
  }
  if (found.time > kSlow) {
    return warning(kName, value + ", which took " + std::to_string(found.time.count()) + " ms to find out",
                   "Each job that starts with MASTER_ADDR=" + name + " waits for this.", to_hosts_file(first, name));
  }
  return ok(kName, value);
}

}  // namespace info::doctor
