#include "anellorun/hosts.h"

#include "anellorun/agent.h"
#include "anellorun/options.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>

namespace anellorun {
namespace {

// A name goes to ssh as a word of its command line: it must not look like one of ssh's options.
void check_name(const std::string& name, const std::string& from) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("._-:%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (name.empty() || name[0] == '-' || !plain) throw std::runtime_error("'" + from + "' names no host");
}

int slots_from(const std::string& digits, const std::string& from) {
  const bool number =
      !digits.empty() && digits.size() < 6 && digits.find_first_not_of("0123456789") == std::string::npos;
  const int slots = number ? std::stoi(digits) : 0;
  if (slots < 1 || slots > kMaxRanks) {
    throw std::runtime_error("'" + from + "': the number of ranks on a host is a whole number from 1 to " +
                             std::to_string(kMaxRanks));
  }
  return slots;
}

// "alpha", "alpha:2", "::1", "[::1]:2"
HostSlots parse_host(const std::string& word) {
  HostSlots host;
  const auto bracket = word.find(']');
  std::string digits;
  if (const auto open = word.find('['); open != std::string::npos && bracket != std::string::npos && open < bracket) {
    host.name = word.substr(0, open) + word.substr(open + 1, bracket - open - 1);
    const std::string rest = word.substr(bracket + 1);
    if (!rest.empty() && rest[0] != ':') throw std::runtime_error("'" + word + "' names no host");
    if (!rest.empty()) digits = rest.substr(1), host.counted = true;
  } else {
    const auto colon = word.find(':');
    const bool one = colon != std::string::npos && word.find(':', colon + 1) == std::string::npos;
    host.name = one ? word.substr(0, colon) : word;
    if (one) digits = word.substr(colon + 1), host.counted = true;
  }
  check_name(host.name, word);
  if (host.counted) host.slots = slots_from(digits, word);
  return host;
}

void add(std::vector<HostSlots>& hosts, const HostSlots& host) {
  const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& h) { return h.name == host.name; });
  if (same == hosts.end()) {
    hosts.push_back(host);
  } else {
    same->slots += host.slots;
    same->counted = true;
  }
}

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) throw std::runtime_error("/proc/self/exe cannot be read");
  return {path.data(), static_cast<std::size_t>(length)};
}

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& list) {
  std::vector<HostSlots> hosts;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) add(hosts, parse_host(word));
  if (hosts.empty()) throw std::runtime_error("'" + list + "' names no host");
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("the host file '" + path + "' cannot be read");
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    try {
      HostSlots host = parse_host(word);
      while (words >> word) {
        const auto equals = word.find('=');
        const std::string name = word.substr(0, equals);
        // Others, such as max_slots, change nothing here.
        if (name != "slots" || equals == std::string::npos) continue;
        host.slots = slots_from(word.substr(equals + 1), word);
        host.counted = true;
      }
      add(hosts, host);
    } catch (const std::runtime_error& mistake) {
      throw std::runtime_error("line " + std::to_string(number) + " of the host file '" + path +
                               "': " + mistake.what());
    }
  }
  if (hosts.empty()) throw std::runtime_error("the host file '" + path + "' names no host");
  return hosts;
}

std::vector<int> spread(const std::vector<HostSlots>& hosts, int ranks, bool& crowded) {
  std::vector<int> counts(hosts.size());
  const bool counted = std::any_of(hosts.begin(), hosts.end(), [](const HostSlots& host) { return host.counted; });
  std::vector<int> slots;
  for (const HostSlots& host : hosts) slots.push_back(host.slots);
  const int all = std::accumulate(slots.begin(), slots.end(), 0);
  if (ranks == 0) ranks = all;
  crowded = counted && ranks > all;
  if (!counted && ranks > all) {
    // Nobody has said how many each takes: all take equally many.
    const int hosts_here = static_cast<int>(hosts.size());
    slots.assign(hosts.size(), (ranks + hosts_here - 1) / hosts_here);
  }
  for (int left = ranks; left > 0;) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const int taken = std::min(left, slots[i]);
      counts[i] += taken;
      left -= taken;
    }
  }
  return counts;
}

bool is_this_host(const std::string& name) {
  std::array<char, 256> own{};
  gethostname(own.data(), own.size() - 1);
  const std::string host = own.data();
  if (name == "localhost" || name == host || name == host.substr(0, host.find('.'))) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char ip[NI_MAXHOST];
    const socklen_t length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (getnameinfo(entry->ifa_addr, length, ip, sizeof ip, nullptr, 0, NI_NUMERICHOST) == 0 && name == ip) return true;
  }
  return false;
}

std::vector<std::string> agent_command(const std::string& host, const std::string& remote_shell,
                                       const std::string& agent_path) {
  if (is_this_host(host)) return {own_path(), kAgentWord};
  std::vector<std::string> words;
  std::istringstream given(remote_shell);
  for (std::string word; given >> word;) words.push_back(word);
  if (words.empty()) {
    // It asks for nothing, and notices a host that has fallen silent.
    words = {"ssh",
             "-T",
             "-x",
             "-o",
             "BatchMode=yes",
             "-o",
             "ConnectTimeout=10",
             "-o",
             "ServerAliveInterval=5",
             "-o",
             "ServerAliveCountMax=3"};
  }
  words.push_back(host);
  words.push_back("exec " + quoted(agent_path.empty() ? own_path() : agent_path) + " " + kAgentWord);
  return words;
}

}  // namespace anellorun
