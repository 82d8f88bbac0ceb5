#include "bootstrap/join.h"

#include "base/config.h"
#include "base/descriptor_table.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/joining.h"
#include "bootstrap/launcher.h"
#include "bootstrap/secret_source.h"
#include "bootstrap/unique_id.h"
#include "control/membership.h"
#include "transports/registry.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace anello::bootstrap {
namespace {

using namespace control;

std::uint32_t transports_from(const char* asked) {
  const std::string list = asked != nullptr ? std::string(asked) : Config::get().transport;
  if (list.empty()) return transport::default_transports();
  std::uint32_t transports = 0;
  for (std::string_view rest = list; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    const transport::Row* const row = transport::find_transport(name);
    if (row == nullptr) {
      throw Error(ANELLO_ERR_ARGUMENT, text("the transport \"", name, "\" in \"", list, "\" is none of ",
                                            transport::transport_names(transport::all_transports())));
    }
    transports |= row->bit();
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return transports;
}

// From the caller, else from the environment.
std::int64_t silence_limit(std::int64_t asked) {
  const std::int64_t ms = asked != 0 ? std::max<std::int64_t>(asked, 0) : Config::get().silence_ms;
  if (ms != 0 && (ms < kLeastSilenceMs || ms > kMostSilenceMs)) {
    throw Error(ANELLO_ERR_ARGUMENT,
                text(asked != 0 ? "silence_ms " : "ANELLO_SILENCE_MS=", ms, " is not between ", kLeastSilenceMs,
                     " and ", kMostSilenceMs, asked != 0 ? "; -1" : "; 0", " switches it off"));
  }
  return ms;
}

void check_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& warning : unknown_variables(environ)) log::warn(-1, warning);
  });
  if (!Config::get().problems.empty()) throw Error(ANELLO_ERR_ARGUMENT, Config::get().problems.front());
}

// ANELLO_URL counts where the caller leaves the choice to the environment.
const char* where(const char* url) {
  const std::string& asked = Config::get().url;
  const bool open = url == nullptr || std::string_view(url) == "env://";
  return !open ? url : asked.empty() ? "env://" : asked.c_str();
}

// A process may initialise PMI-2 once, so MPI could not do it any more. With a secret, Slurm's ranks need no key space.
bool is_ours(const KeySpaceAt& at, int rank) {
  if (at.version == 1) return true;
  if (given_secret()) return false;
  if (!has_mpi()) return true;
  log::warn(rank, "the launcher's key space (PMI-2) stays MPI's, which is in this process");
  return false;
}

}  // namespace

std::unique_ptr<Job> join(const anello_config_t& config) {
  if (in_forked_child()) throw Error(ANELLO_ERR_FORKED, "this process was forked from one that uses Anello");
  watch_forks();
  check_environment();
  const Launch launch = read_launch([](const char* name) { return secure_getenv(name); }, config.rank,
                                    config.world_size, config.unique_id == nullptr && config.store == nullptr);
  Wish wish;
  wish.rank = launch.rank;
  wish.size = launch.size;
  wish.timeout_ms = config.timeout_ms > 0 ? config.timeout_ms : std::max<std::int64_t>(Config::get().timeout_ms, 1);
  wish.silence_ms = silence_limit(config.silence_ms);
  wish.transports = transports_from(config.transports);
  wish.deadline = Deadline::in_ms(wish.timeout_ms);
  if (wish.size == 1 && launch.source.empty() && config.world_size < 0) {
    const std::string hint = why_alone([](const char* name) { return secure_getenv(name); });
    if (!hint.empty()) log::warn(0, hint);
  }
  if (wish.size == 1) return make_lone_membership(settings_of(0, wish.silence_ms));
  // Two for each rank of this host, plus a connection or two. The leader of a host sends them rank by rank, and would
  // wait for each rank's table to grow.
  constexpr int kOfEachRank = 4, kBeside = 64, kMost = 8192;
  make_room_for_descriptors(std::min(wish.size, kMost / kOfEachRank) * kOfEachRank + kBeside);
  if (config.unique_id != nullptr) {
    try {
      return join_at(decode_id(*config.unique_id), wish);
    } catch (const Unknown& error) {
      throw Error(ANELLO_ERR_RENDEZVOUS,
                  text("nobody listens for this unique id (any more): its maker has ended, or its "
                       "ranks have met already (",
                       error.text(), ")"));
    }
  }
  if (config.store != nullptr) return join_over(*config.store, wish);
  const char* const url = where(config.url);
  if (const Place place = parse_url(url); place.kind == Place::Kind::file)
    return join_over_file(place.host, launch.job.empty() ? launch.scheduler_job : launch.job, wish);
  const bool whole_job = config.rank < 0 && config.world_size < 0;
  if (std::string_view(url) == "env://" && launch.key_space && launch.job.empty() && !launch.all_local && whole_job &&
      is_ours(launch.key_space, wish.rank)) {
    return join_over_key_space(launch.key_space, wish);
  }
  Meeting meeting = meeting_at(url, launch, wish.timeout_ms);
  // Otherwise the caller's ranks may differ from the launcher's.
  if (whole_job) meeting.ended = EndedRanks::of(static_cast<int>(Config::get().ended_fd), wish.size);
  // A second rank 0 finds the place taken: it connects there, and all ranks learn of it.
  if (wish.rank == 0) host(meeting);
  return join_at(meeting, wish);
}

anello_unique_id_t make_unique_id(bool this_host_only) {
  if (in_forked_child()) throw Error(ANELLO_ERR_FORKED, "this process was forked from one that uses Anello");
  watch_forks();
  check_environment();
  const FreshMeeting fresh = fresh_meeting(this_host_only ? std::string() : address_for_others());
  Address tcp;
  if (!host(fresh.meeting, &tcp)) throw Error(ANELLO_ERR_ADDRESS, "a random abstract socket name is in use");
  return encode_id(fresh, tcp);
}

}  // namespace anello::bootstrap
