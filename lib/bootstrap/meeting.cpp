#include "bootstrap/meeting.h"

#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/secret_source.h"
#include "control/host.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace anello::bootstrap {
namespace {

using namespace control;

// How many creations rank has begun at place in this process: the n-th of each rank meets the n-th of the others.
int next_generation(const std::string& place, int rank) {
  static std::mutex mutex;
  static auto* const counts = new std::map<std::pair<std::string, int>, int>;
  const std::lock_guard lock(mutex);
  return (*counts)[{place, rank}]++;
}

}  // namespace

std::string hex(std::span<const std::byte> bytes) {
  std::string digits;
  for (const std::byte byte : bytes) {
    digits += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    digits += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  return digits;
}

namespace {

void name_job(Meeting& meeting, const std::string& name) {
  const Key digest = key_from("anello meeting", bytes_of(name));
  std::memcpy(meeting.job.data(), digest.bytes().data(), meeting.job.size());
  if (const auto secret = given_secret()) {
    meeting.key = derive(*secret, "anello meeting", bytes_of(name));
  } else {
    meeting.same_user = true;
    meeting.key = key_from("anello meeting without a secret", bytes_of(name));
  }
}

// Abstract names are the host's, whoever's. Without a secret the user id keeps the jobs of several users apart. The
// secret is no part of the name: a rank with a wrong one shall find the place and be told so.
Address unix_address_for(const Meeting& meeting, const std::string& name) {
  const std::string own = meeting.same_user ? text(::geteuid(), " ", name) : name;
  const Key digest = key_from("anello name", bytes_of(own));
  return {"anello-" + hex(digest.bytes().first(12)), "", 0};
}

constexpr const char* kHowToGiveSecret =
    "ranks on several hosts need a secret: start them with anellorun, or give all of them the same ANELLO_SECRET_FILE "
    "(mode 0600)";

Meeting at_address(const std::string& host, int port, const Launch& launch, std::int64_t timeout_ms) {
  Meeting meeting;
  const std::string ip = resolve(host, std::min<std::int64_t>(timeout_ms, 5'000));
  const std::string name = text("port ", port, " ", launch.job);
  const std::string generation = text(name, " #", next_generation(name, launch.rank));
  name_job(meeting, generation);
  meeting.place = text(host, ":", port);
  if (is_local(ip)) {
    const Address here = unix_address_for(meeting, generation);
    meeting.listen.push_back(here);
    meeting.reach.push_back(here);
  }
  const bool other_hosts = !is_loopback(ip) && !launch.all_local;
  if (meeting.listen.empty() && meeting.same_user) {
    throw Error(ANELLO_ERR_AUTH, text("the meeting place ", meeting.place, " is on another host; ", kHowToGiveSecret));
  }
  if (meeting.same_user && launch.several_hosts) {
    throw Error(ANELLO_ERR_AUTH, text("the launcher has put the ", launch.size,
                                      " ranks on several hosts, and there is no secret; ", kHowToGiveSecret));
  }
  const auto low = static_cast<std::uint16_t>(port), high = static_cast<std::uint16_t>(port + 1);
  if (other_hosts && !meeting.same_user) {
    meeting.listen.push_back({"", ip, low});
  } else if (other_hosts) {
    meeting.hint = text("if they are on other hosts: ", kHowToGiveSecret);
  }
  if (meeting.reach.empty()) {
    // torchrun's store may hold the port itself, and it waits for us to speak: so the next one first, which refuses at
    // once if nobody is there.
    meeting.reach = {{"", ip, high}, {"", ip, low}};
  }
  return meeting;
}

Meeting at_name(const std::string& name, int rank, const std::string& place) {
  Meeting meeting;
  const std::string generation = text("name ", name, " #", next_generation("name " + name, rank));
  name_job(meeting, generation);
  meeting.place = place;
  meeting.listen = meeting.reach = {unix_address_for(meeting, generation)};
  return meeting;
}

}  // namespace

Meeting meeting_at(const char* url, const Launch& launch, std::int64_t timeout_ms) {
  const std::string_view where = url == nullptr ? "env://" : url;
  const auto after = [&](std::string_view scheme) -> std::optional<std::string> {
    if (where.substr(0, scheme.size()) != scheme) return std::nullopt;
    return std::string(where.substr(scheme.size()));
  };
  if (const auto name = after("unix://"); name && !name->empty())
    return at_name(*name, launch.rank, std::string(where));
  if (const auto address = after("tcp://")) {
    const std::size_t colon = address->rfind(':');
    int port = 0;
    if (colon != std::string::npos) port = std::atoi(address->c_str() + colon + 1);
    std::string host = address->substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    if (host.empty() || port < 1 || port > 65534) {
      throw Error(ANELLO_ERR_ARGUMENT, text("the url ", where, " is not tcp://host:port"));
    }
    return at_address(host, port, launch, timeout_ms);
  }
  if (where != "env://") {
    throw Error(ANELLO_ERR_ARGUMENT, text("the url ", where, " is none of env://, tcp://host:port, unix://name"));
  }
  if (!launch.master_host.empty()) return at_address(launch.master_host, launch.master_port, launch, timeout_ms);
  for (const std::string& job : {launch.job, launch.scheduler_job}) {
    if (!job.empty()) return at_name(job, launch.rank, "this host's place for the job " + job);
  }
  throw Error(ANELLO_ERR_ARGUMENT, text("there are ", launch.size, " ranks (", launch.source,
                                        ") and no meeting place: set MASTER_ADDR and MASTER_PORT, or a url"));
}

}  // namespace anello::bootstrap
