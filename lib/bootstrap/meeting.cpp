#include "bootstrap/meeting.h"

#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/secret_source.h"
#include "control/host.h"
#include "control/interfaces.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace anello::bootstrap {
namespace {

using namespace control;

// The number of creations that rank has begun at place in this process: the n-th of each rank meets the n-th of the
// others.
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

// All users of a host share its abstract names. Without a secret, the user id separates the jobs of several users. The
// secret is not part of the name: a rank with a wrong secret must find the place and get an error that says so.
Address unix_address_for(const Meeting& meeting, const std::string& name) {
  const std::string own = meeting.same_user ? text(::geteuid(), " ", name) : name;
  const Key digest = key_from("anello name", bytes_of(own));
  return {"anello-" + hex(digest.bytes().first(12)), "", 0};
}

constexpr const char* kHowToGiveSecret =
    "ranks on several hosts need a secret: start them with anellorun, give all of them the same ANELLO_SECRET_FILE "
    "(mode 0600), let them meet over a file that all see (ANELLO_URL=file:///path), or start them with "
    "srun --mpi=pmi2";

Meeting at_address(const std::string& host, int port, const Launch& launch, std::int64_t timeout_ms) {
  Meeting meeting;
  const std::string ip = resolve(host, std::min<std::int64_t>(timeout_ms, 5'000));
  const std::string name = text("port ", port, " ", launch.job);
  const std::string generation = text(name, " #", next_generation(name, launch.rank));
  name_job(meeting, generation);
  meeting.place = with_port(host, port);
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
    // Behind a translator of addresses, rank 0 listens at an address of its own.
    const bool translated = launch.rank == 0 && !is_local(ip) && !Config::get().advertise.empty();
    const std::string& filter = Config::get().interface;
    const std::string own = !translated ? ip : filter.empty() ? address_towards(ip) : address_of_interface(filter, ip);
    meeting.listen.push_back({"", own, low});
    if (translated) meeting.reach.push_back({"", own, low});
  } else if (other_hosts) {
    meeting.hint = text("if they are on other hosts: ", kHowToGiveSecret);
  }
  if (meeting.reach.empty()) {
    // torchrun's store may use the port itself, and it waits for us to speak. So try the next port first, which refuses
    // at once if no process listens there. anellorun has no store, and a firewall may let through its port alone.
    meeting.reach = {{"", ip, high}, {"", ip, low}};
    if (!launch.job.empty()) std::swap(meeting.reach[0], meeting.reach[1]);
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

Place parse_url(std::string_view url) {
  const auto after = [&](std::string_view scheme) -> std::optional<std::string_view> {
    if (url.substr(0, scheme.size()) != scheme) return std::nullopt;
    return url.substr(scheme.size());
  };
  if (url == "env://") return {};
  if (const auto name = after("unix://"); name && !name->empty()) return {Place::Kind::name, std::string(*name), 0};
  if (const auto path = after("file://"); path && path->size() > 1 && path->front() == '/')
    return {Place::Kind::file, std::string(*path), 0};
  if (const auto address = after("tcp://")) {
    const std::size_t colon = std::min(address->rfind(':'), address->size());
    const std::string_view digits = address->substr(std::min(colon + 1, address->size()));
    std::string_view host = address->substr(0, colon);
    int port = 0;
    const auto [stop, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    if (host.empty() || wrong != std::errc{} || stop != digits.data() + digits.size() || port < 1 || port > 65534) {
      throw Error(ANELLO_ERR_ARGUMENT, text("the url ", url, " is not tcp://host:port"));
    }
    return {Place::Kind::tcp, std::string(host), port};
  }
  throw Error(ANELLO_ERR_ARGUMENT,
              text("the url ", url, " is not one of env://, tcp://host:port, unix://name, file:///path"));
}

Meeting meeting_at(const char* url, const Launch& launch, std::int64_t timeout_ms) {
  const Place place = parse_url(url == nullptr ? "env://" : url);
  if (place.kind == Place::Kind::name) return at_name(place.host, launch.rank, url);
  if (place.kind == Place::Kind::tcp) return at_address(place.host, place.port, launch, timeout_ms);
  if (!launch.master_host.empty()) return at_address(launch.master_host, launch.master_port, launch, timeout_ms);
  for (const std::string& job : {launch.job, launch.scheduler_job}) {
    if (!job.empty()) return at_name(job, launch.rank, "this host's place for the job " + job);
  }
  throw Error(ANELLO_ERR_ARGUMENT, text("there are ", launch.size, " ranks (", launch.source,
                                        ") and no meeting place: set MASTER_ADDR and MASTER_PORT, or a url"));
}

}  // namespace anello::bootstrap
