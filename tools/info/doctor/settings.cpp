// Anello's own variables in this shell, and what the library itself says of its transports.
#include "info/doctor/checks.h"

#include "base/config.h"

#include <anello/anello.h>

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace info::doctor {
namespace {

// The error of a rank that is alone, or "". It reads all settings but the secret, and looks up what they name.
std::string try_to_create() {
  anello_set_log([](void*, anello_log_level_t, const char*) {}, nullptr, ANELLO_LOG_ERROR);
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 1;
  anello_comm_t comm = ANELLO_COMM_NULL;
  std::string error;
  if (anello_comm_create(&config, &comm) != ANELLO_OK) {
    error = anello_last_error(ANELLO_COMM_NULL);
  } else {
    anello_comm_destroy(comm);
  }
  anello_set_log(nullptr, nullptr, ANELLO_LOG_ERROR);
  return error;
}

// The variable that a text is about, or "".
std::string named_in(const std::string& text) {
  const auto begin = text.find("ANELLO_");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", begin) - begin);
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 160;
  return text.size() <= kMost ? text : text.substr(0, kMost) + " ..";
}

constexpr const char* kSettings = "settings";
constexpr const char* kNoJob = "Every job of this shell fails when it creates its first communicator.";

// A finding that is ok: there is no secret's file, or it can be used.
Finding secret_file() {
  const std::string& path = anello::Config::get().secret_file;
  struct stat about {};
  if (path.empty()) return ok(kSettings, "");
  const std::string value = "ANELLO_SECRET_FILE=" + path;
  if (stat(path.c_str(), &about) != 0 || access(path.c_str(), R_OK) != 0) {
    return problem(kSettings, value + ": " + strerror(errno), kNoJob,
                   "(umask 077; head -c 32 /dev/urandom > " + path + ")        and copy it to all hosts");
  }
  if ((about.st_mode & 077) != 0)
    return problem(kSettings, value + ": others may read or write it", kNoJob, "chmod 600 " + path);
  return ok(kSettings, "");
}

}  // namespace

Finding settings() {
  const std::vector<std::string>& wrong = anello::Config::get().problems;
  const std::vector<std::string> unknown = anello::unknown_variables(environ);
  const std::string error = wrong.empty() ? try_to_create() : wrong.front();
  if (!error.empty()) {
    const std::string name = named_in(error);
    return problem(kSettings, shortened(error), kNoJob,
                   name.empty() ? "env | grep ANELLO_        and unset the variable that is meant" : "unset " + name);
  }
  if (Finding secret = secret_file(); secret.verdict != shared::Verdict::ok) return secret;
  if (!unknown.empty()) {
    return warning(kSettings, unknown.front(), "The variable changes nothing.",
                   "unset " + unknown.front().substr(0, unknown.front().find(' ')));
  }
  int count = 0;
  for (char** each = environ; *each != nullptr; ++each) count += strncmp(*each, "ANELLO_", 7) == 0 ? 1 : 0;
  if (count == 0) return ok(kSettings, "no variable of Anello is set");
  return ok(kSettings,
            std::to_string(count) + (count == 1 ? " variable" : " variables") + " of Anello, all understood");
}

Finding transports() {
  const char* const kName = "transports";
  anello_transport_info_t transport{};
  transport.size = sizeof transport;
  std::string usable;
  for (int index = 0; anello_transport_query(index, &transport) == ANELLO_OK; ++index) {
    const std::string name = transport.name, why_not = transport.why_not;
    if (why_not.empty()) usable += (usable.empty() ? "" : ", ") + name;
    if (why_not.empty() || name == "verbs") continue;  // of adapters; see rdma()
    if (name == "shm") {
      return warning(kName, "shm is not usable",
                     "Ranks of this host send over TCP, which is several times slower: " + why_not + ".",
                     "anello-info        shows each transport; run it outside the sandbox or container to compare");
    }
    return problem(kName, name + " is not usable", "Jobs that need it do not start: " + why_not + ".", "anello-info");
  }
  return ok(kName, usable);
}

}  // namespace info::doctor
