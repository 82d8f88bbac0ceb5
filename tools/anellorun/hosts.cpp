#include "anellorun/hosts.h"

#include "anellorun/agent.h"
#include "anellorun/options.h"

#include "base/network_interfaces.h"
#include "base/node_list.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
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

// The hosts that one word stands for: "alpha", "alpha:2", "node[01-16]:2", "::1", "[::1]:2".
std::vector<HostSlots> parse_word(const std::string& word) {
  const auto open = word.find('['), close = word.rfind(']');
  const bool brackets = open != std::string::npos && close != std::string::npos && open < close;
  const auto colon = word.find(':', brackets ? close : 0);
  // Without brackets, several colons are those of an IPv6 address.
  const bool counted = colon != std::string::npos && (brackets || word.find(':', colon + 1) == std::string::npos);
  const std::string name = word.substr(0, counted ? colon : std::string::npos);
  std::vector<std::string> names{name};
  if (brackets && word.find(':', open) < close) {
    if (close + 1 != name.size()) throw std::runtime_error("'" + word + "' names no host");
    names = {name.substr(0, open) + name.substr(open + 1, close - open - 1)};
  } else if (name.find_first_of("[]") != std::string::npos) {
    anello::NodeList list = anello::expand_node_list(name, kMaxRanks);
    if (!list) throw std::runtime_error("no list of hosts: " + list.wrong);
    names = std::move(list.names);
  }
  const int slots = counted ? slots_from(word.substr(colon + 1), word) : 1;
  std::vector<HostSlots> hosts;
  for (const std::string& each : names) {
    check_name(each, word);
    hosts.push_back({each, slots, counted});
  }
  return hosts;
}

// A host that is named again gets more slots.
void add(std::vector<HostSlots>& hosts, const std::vector<HostSlots>& more) {
  for (const HostSlots& host : more) {
    const auto same = std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& h) { return h.name == host.name; });
    if (same != hosts.end()) {
      same->counted = true;
      same->slots += host.slots;
      if (same->slots > kMaxRanks)
        throw std::runtime_error("more than " + std::to_string(kMaxRanks) + " ranks on host '" + host.name + "'");
    } else if (hosts.size() == kMaxRanks) {
      throw std::runtime_error("more than " + std::to_string(kMaxRanks) + " hosts");
    } else {
      hosts.push_back(host);
    }
  }
}

// The words between the commas that are not within brackets.
std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words(1);
  bool inside = false;
  for (const char each : list) {
    if (each == ',' && !inside) {
      words.emplace_back();
      continue;
    }
    inside = each == '[' || (inside && each != ']');
    words.back() += each;
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

std::string own_path() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) throw std::runtime_error("/proc/self/exe cannot be read");
  return {path.data(), static_cast<std::size_t>(length)};
}

std::vector<HostSlots> parse_hosts(const std::string& list) {
  std::vector<HostSlots> hosts;
  for (const std::string& word : words_of(list)) add(hosts, parse_word(word));
  if (hosts.empty()) throw std::runtime_error("'" + list + "' names no host");
  return hosts;
}

std::vector<HostSlots> read_lines(std::istream& lines, const std::string& of) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    try {
      std::vector<HostSlots> named = parse_hosts(word);
      while (words >> word) {
        const auto equals = word.find('=');
        const std::string name = word.substr(0, equals);
        // Others, such as max_slots, change nothing here.
        if (name != "slots" || equals == std::string::npos) continue;
        const int slots = slots_from(word.substr(equals + 1), word);
        for (HostSlots& host : named) host.slots = slots, host.counted = true;
      }
      add(hosts, named);
    } catch (const std::runtime_error& mistake) {
      throw std::runtime_error("line " + std::to_string(number) + " of " + of + ": " + mistake.what());
    }
  }
  return hosts;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("the host file '" + path + "' cannot be read");
  std::vector<HostSlots> hosts = read_lines(file, "the host file '" + path + "'");
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
  const std::vector<anello::NetworkInterface> all = anello::network_interfaces();
  return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.ip == name; });
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
