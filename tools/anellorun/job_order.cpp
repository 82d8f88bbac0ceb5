#include "anellorun/job_order.h"

#include "anellorun/options.h"

#include <algorithm>
#include <array>

extern char** environ;

namespace anellorun {
namespace {

constexpr int kMaxNodes = kMaxRanks;

void put_words(Writer& writer, const std::vector<std::string>& words) {
  writer.put(static_cast<std::uint32_t>(words.size()));
  for (const std::string& word : words) writer.put(word);
}

std::vector<std::string> take_words(Reader& reader) {
  std::vector<std::string> words(reader.count());
  for (std::string& word : words) word = reader.text();
  return words;
}

}  // namespace

void put_order(Writer& writer, const JobOrder& order, const Secret& secret) {
  const Share& share = order.share;
  writer.put(secret.bytes()).put(order.name).put(order.folder);
  put_words(writer, order.environment);
  writer.put(share.host).put(share.world).put(share.first).put(share.ranks).put(share.node).put(share.nodes);
  writer.put(share.restarts).put(share.most_restarts).put(share.slot).put(share.slots);
  writer.put(static_cast<std::uint32_t>(share.binding)).put(static_cast<std::uint32_t>(share.programs.size()));
  for (const Program& program : share.programs) {
    writer.put(program.ranks).put(static_cast<std::uint32_t>(program.environment.size()));
    for (const auto& [name, value] : program.environment) writer.put(name).put(value);
    put_words(writer, program.words);
  }
}

JobOrder take_order(Reader& reader, std::unique_ptr<Secret>& secret) {
  JobOrder order;
  const std::string_view bytes = reader.text();
  if (bytes.size() != Secret::kBytes) throw WrongFrame();
  secret = std::make_unique<Secret>(bytes);
  order.name = reader.text();
  order.folder = reader.text();
  order.environment = take_words(reader);
  Share& share = order.share;
  share.host = reader.text();
  share.world = reader.integer(kMaxRanks);
  share.first = reader.integer(kMaxWorkers);
  share.ranks = reader.integer(kMaxRanks);
  share.node = reader.integer(kMaxNodes);
  share.nodes = reader.integer(kMaxNodes);
  share.restarts = reader.integer(kMaxRestarts);
  share.most_restarts = reader.integer(kMaxRestarts);
  share.slot = reader.integer(kMaxRanks);
  share.slots = reader.integer(kMaxRanks);
  if (!share.elastic() && share.first + share.ranks > share.world) throw WrongFrame();
  share.binding = static_cast<Binding>(reader.integer(static_cast<int>(kLastBinding)));
  share.programs.resize(reader.count());
  for (Program& program : share.programs) {
    program.ranks = reader.integer(share.world);
    program.environment.resize(reader.count());
    for (auto& [name, value] : program.environment) {
      name = reader.text();
      value = reader.text();
    }
    program.words = take_words(reader);
    if (program.words.empty()) throw WrongFrame();
  }
  reader.end();
  if (share.ranks == 0 || share.programs.empty()) throw WrongFrame();
  return order;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string variable(const char* name, const Program& program) {
  std::string found = variable(name);
  for (const auto& [each, value] : program.environment) {
    if (each == name) found = value;
  }
  return found;
}

WantedInterfaces wanted_interfaces(const Program& program) {
  const std::string several = variable("ANELLO_INTERFACES", program);
  if (!several.empty()) return {"ANELLO_INTERFACES", several};
  return {"ANELLO_INTERFACE", variable("ANELLO_INTERFACE", program)};
}

std::vector<std::string> environment_for_others() {
  constexpr std::array kOfThisHost{"_",
                                   "COLUMNS",
                                   "DBUS_SESSION_BUS_ADDRESS",
                                   "DISPLAY",
                                   "HOME",
                                   "HOSTNAME",
                                   "KRB5CCNAME",
                                   "LINES",
                                   "LOGNAME",
                                   "MAIL",
                                   "OLDPWD",
                                   "PWD",
                                   "SHELL",
                                   "SHLVL",
                                   "TEMP",
                                   "TMP",
                                   "TMPDIR",
                                   "USER",
                                   "WAYLAND_DISPLAY",
                                   "XAUTHORITY",
                                   "ANELLO_SSH",
                                   "ANELLO_SECRET_FD",
                                   "ANELLO_SECRET_FILE",
                                   "ANELLO_ENDED_FD",
                                   "ANELLO_LAUNCHER_FD"};
  constexpr std::array kFamilies{"SSH_", "XDG_", "SUDO_", "SYSTEMD_"};
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const std::string name = variable.substr(0, variable.find('='));
    const bool stays =
        std::any_of(kOfThisHost.begin(), kOfThisHost.end(), [&](const char* own) { return name == own; }) ||
        std::any_of(kFamilies.begin(), kFamilies.end(),
                    [&](const std::string& family) { return name.rfind(family, 0) == 0; });
    if (!stays && name.size() < variable.size()) variables.push_back(variable);
  }
  return variables;
}

}  // namespace anellorun
