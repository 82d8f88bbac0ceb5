// Limits of the shell (ulimit), which its programs inherit.
#include "info/doctor/checks.h"
#include "info/doctor/surroundings.h"
#include "info/system_file.h"

#include <sys/resource.h>

#include <cstdlib>
#include <string>

namespace info::doctor {
namespace {

// Descriptors of a rank: its own and its program's, and for each other process of its host two to wake it, one that
// shows its death and its control connection. A process of another host costs fewer.
constexpr rlim_t kOwnFiles = 64;
constexpr rlim_t kFilesForPeer = 4;
constexpr rlim_t kFewPeers = 60;
constexpr rlim_t kLaneBytes = 1 << 20;  // which an RDMA lane locks

rlimit limit_of(int resource) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit;
}

// Root of a container often may not.
bool may_raise_hard_limits() {
  constexpr int kSysResource = 24;
  const unsigned long long capabilities = std::strtoull(field("/proc/self/status", "CapEff").c_str(), nullptr, 16);
  return (capabilities >> kSysResource & 1) != 0;
}

// Raises the limit: in this shell if it may, else for the next login. enough: what is no warning any more.
std::string raise(const rlimit& limit, const std::string& option, const std::string& item, rlim_t wanted,
                  rlim_t enough) {
  const auto text = [](rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); };
  if (limit.rlim_max >= wanted || may_raise_hard_limits()) return "ulimit -" + option + " " + text(wanted);
  if (limit.rlim_max >= enough) return "ulimit -" + option + " " + text(limit.rlim_max);
  if (!container_engine().empty())
    return "docker run --ulimit " + item + "=" + (wanted == RLIM_INFINITY ? "-1" : text(wanted)) + " ..";
  return "echo '* - " + item + " " + text(wanted) +
         "' | sudo tee /etc/security/limits.d/anello.conf        then log in again";
}

}  // namespace

Finding file_size() {
  const char* const kName = "file size";
  const rlimit limit = limit_of(RLIMIT_FSIZE);
  if (limit.rlim_cur == RLIM_INFINITY) return ok(kName, "no limit (ulimit -f)");
  return warning(
      kName, "at most " + in_units(double(limit.rlim_cur)) + " (ulimit -f)",
      "The limit counts for shared memory, too: calls that need more fail with ANELLO_ERR_RESOURCE, or ranks "
      "of this host use TCP.",
      raise(limit, "f", "fsize", RLIM_INFINITY, RLIM_INFINITY));
}

Finding open_files() {
  const char* const kName = "open files";
  const rlimit limit = limit_of(RLIMIT_NOFILE);
  const rlim_t peers = limit.rlim_cur > kOwnFiles ? (limit.rlim_cur - kOwnFiles) / kFilesForPeer : 0;
  const std::string value =
      std::to_string(limit.rlim_cur) + " (ulimit -n): enough for jobs of about " + std::to_string(peers + 1) + " ranks";
  if (peers >= kFewPeers) return ok(kName, value);
  const std::string remedy = raise(limit, "n", "nofile", 65536, kOwnFiles + kFewPeers * kFilesForPeer);
  if (peers == 0) return problem(kName, value, "Jobs fail with \"too many open files\".", remedy);
  return warning(kName, value, "Larger jobs fail with \"too many open files\".", remedy);
}

Finding locked_memory() {
  const char* const kName = "locked memory";
  const rlimit limit = limit_of(RLIMIT_MEMLOCK);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  const std::string value = (unlimited ? "no limit" : in_units(double(limit.rlim_cur))) + " (ulimit -l)";
  if (unlimited) return ok(kName, value);
  if (!has_rdma_adapter()) return ok(kName, value + "; only RDMA adapters need more, and there is none");
  const rlim_t lanes = limit.rlim_cur / kLaneBytes;
  const std::string remedy = raise(limit, "l", "memlock", RLIM_INFINITY, RLIM_INFINITY);
  if (lanes == 0) return warning(kName, value, "No lane over an RDMA adapter can be made: each locks 1 MiB.", remedy);
  return warning(kName, value,
                 "Each lane over an RDMA adapter locks 1 MiB, so a rank can have " + std::to_string(lanes) +
                     " of them; with more peers on other hosts, creation fails.",
                 remedy);
}

}  // namespace info::doctor
