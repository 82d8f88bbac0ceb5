#include "bootstrap/join.h"

#include "base/config.h"
#include "base/descriptor_table.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/launcher.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/rendezvous_root.h"
#include "bootstrap/tuning_file.h"
#include "bootstrap/unique_id.h"
#include "control/host.h"
#include "control/membership.h"
#include "transports/registry.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace anello::bootstrap {
namespace {

using namespace control;

// Added to the deadline that the service thread itself keeps.
constexpr std::int64_t kServiceGraceMs = 15'000;
constexpr int kMaxCreations = 1'000'000;  // over one store

std::uint32_t transports_from(const char* asked) {
  const std::string list = asked != nullptr ? std::string(asked) : Config::get().transport;
  if (list.empty()) return transport::all_transports();
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

// What the transports that this rank may use give out to others.
std::vector<std::string> addresses_of(std::uint32_t transports) {
  std::vector<std::string> addresses;
  for (std::size_t row = 0; row < transport::registry().size(); ++row) {
    const transport::Row& each = transport::registry()[row];
    if ((transports & each.bit()) == 0 || each.address == nullptr) continue;
    addresses.resize(row + 1);
    addresses[row] = each.address();
    if (addresses[row].size() > transport::kMostAddressBytes)
      throw Error(ANELLO_ERR_INTERNAL,
                  text("the transport ", each.name, " gives out an address of ", addresses[row].size(), " bytes"));
  }
  return addresses;
}

// Of another rank than 0 nobody asks for its table.
Shared settings_of(int rank, std::int64_t silence_ms) {
  const Config& config = Config::get();
  TuningFile tuning;
  if (rank == 0) tuning = find_tuning(config, [](const char* name) { return secure_getenv(name); });
  return {config.algorithm, config.chunk_bytes, config.first_sequence, silence_ms, config.invariant, std::move(tuning)};
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

// Runs body on the service thread and waits here.
template <class Work>
auto on_service(const ServiceHold& hold, Work work) {
  using Result = decltype(work());
  auto promise = std::make_shared<std::promise<Result>>();
  std::future<Result> future = promise->get_future();
  hold->post([promise, work = std::move(work)] {
    try {
      if constexpr (std::is_void_v<Result>) {
        work();
        promise->set_value();
      } else {
        promise->set_value(work());
      }
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  if (future.wait_for(std::chrono::milliseconds(kServiceGraceMs)) != std::future_status::ready) {
    throw Error(ANELLO_ERR_TIMEOUT, "the service thread gets no processor");
  }
  return future.get();
}

Task<> meet(std::shared_ptr<Rendezvous> rendezvous, std::shared_ptr<std::promise<void>> met) {
  try {
    co_await Rendezvous::run(rendezvous);
    met->set_value();
  } catch (...) {
    met->set_exception(std::current_exception());
  }
}

struct Wish {
  int rank = 0;
  int size = 1;
  std::int64_t timeout_ms = 0;
  std::int64_t silence_ms = 0;
  std::uint32_t transports = 0;
  Deadline deadline = Deadline::in_ms(0);
};

// One attempt at one meeting place. Throws Error, or Unknown if the place is gone.
std::unique_ptr<Job> join_at(const Meeting& meeting, const Wish& wish) {
  ServiceHold hold = ServiceHold::take();
  auto agent = std::make_shared<Agent>(*hold, wish.rank, wish.size, wish.timeout_ms);
  Peer self;
  const Host& host = this_host();
  self.member = {wish.rank, host.name, host.pid, host.process, 0, -1, Processors::of_this_process(), 0};
  self.uid = host.uid;
  self.reach = host.reach;
  self.process_space = host.process_space;
  self.transports = wish.transports;
  self.member.addresses = addresses_of(wish.transports);
  self.unix_address = on_service(hold, [agent] { return agent->open_listener(); });
  auto rendezvous = std::make_shared<Rendezvous>(
      agent, meeting, std::move(self), settings_of(wish.rank, wish.silence_ms), Config::get().interface, wish.deadline);
  auto met = std::make_shared<std::promise<void>>();
  std::future<void> done = met->get_future();
  hold->post([agent, rendezvous, met] { agent->service().spawn("rendezvous", meet(rendezvous, met)); });
  try {
    if (done.wait_for(std::chrono::milliseconds(wish.deadline.left_ms() + kServiceGraceMs)) !=
        std::future_status::ready) {
      throw Error(ANELLO_ERR_RENDEZVOUS, text("creation did not finish within ", wish.timeout_ms, " ms"));
    }
    done.get();
  } catch (...) {
    auto left = std::make_shared<std::promise<void>>();
    std::future<void> gone = left->get_future();
    hold->post([agent, left] { agent->service().spawn("leave", Agent::leave(agent, [left] { left->set_value(); })); });
    gone.wait_for(std::chrono::seconds(1));
    rendezvous.reset();
    agent.reset();  // destroyed before the service on which it lives
    throw;
  }
  for (const Peer& peer : agent->peers()) {
    if (peer.member.rank != wish.rank) {
      log::debug(wish.rank, describe(peer.member), " over ", transport::transport_names(peer.member.transport()));
    }
  }
  Shared shared = rendezvous->shared();
  rendezvous.reset();
  return make_membership(std::move(hold), std::move(agent), std::move(shared));
}

// Opens the meeting place in this process. False: another process has it.
bool host(const Meeting& meeting, Address* tcp = nullptr) {
  ServiceHold hold = ServiceHold::take();
  ServiceHold for_root = ServiceHold::take();
  auto root = std::make_shared<RendezvousRoot>(std::move(for_root), meeting);
  const bool opened = on_service(hold, [root] { return root->open(); });
  if (tcp != nullptr) *tcp = root->tcp_address();
  // The service thread releases its own references there.
  hold->post([root = std::move(root)]() mutable { root.reset(); });
  return opened;
}

std::string address_for_others() {
  if (!Config::get().interface.empty()) return address_of_interface(Config::get().interface);
  // The address from which packets to the network would leave; nothing is sent.
  for (const char* const somewhere : {"192.0.2.1", "2001:db8::1"}) {
    const std::string ip = source_towards(somewhere);
    if (!ip.empty() && !is_loopback(ip)) return ip;
  }
  return {};
}

// Each creation over a store has its own key. Rank 0 takes the first free one; the others try the newest existing one
// and go on to the next if its ranks have already met.
std::unique_ptr<Job> join_over(const anello_store_t& store, const Wish& wish) {
  for (int i = 0; i < kMaxCreations; ++i) {
    const std::string key = text("anello/", i);
    anello_unique_id_t id;
    const Wiped wiped(std::as_writable_bytes(std::span(id.bytes)));
    std::size_t bytes = sizeof id.bytes;
    if (wish.rank == 0) {
      if (store.get(store.context, key.c_str(), id.bytes, &bytes, 0) == 0) continue;
      id = make_unique_id();
      const int refused = store.set(store.context, key.c_str(), id.bytes, sizeof id.bytes);
      if (refused != 0)
        throw Error(ANELLO_ERR_RENDEZVOUS, text("the store's set(\"", key, "\") failed with ", refused));
      return join_at(decode_id(id), wish);
    }
    const std::int64_t asked_ms = wish.deadline.left_ms();
    const int refused = store.get(store.context, key.c_str(), id.bytes, &bytes, asked_ms);
    const std::int64_t left_ms = wish.deadline.left_ms();
    if (refused != 0 && left_ms > asked_ms / 10) {  // a store's clock may be slightly ahead
      throw Error(ANELLO_ERR_RENDEZVOUS,
                  text("the store's get(\"", key, "\") failed with ", refused, " after ", asked_ms - left_ms, " of ",
                       asked_ms, " ms: look whether the store is still there"));
    }
    if (refused != 0) {
      throw Error(ANELLO_ERR_RENDEZVOUS, text("rank 0 of ", wish.size, " did not come within ", wish.timeout_ms,
                                              " ms: the store has no \"", key, "\""));
    }
    if (bytes != sizeof id.bytes) throw Error(ANELLO_ERR_RENDEZVOUS, text("the store's \"", key, "\" is not Anello's"));
    try {
      return join_at(decode_id(id), wish);
    } catch (const Unknown&) {
      // The ranks of that creation have met; this rank belongs to a later one.
    }
  }
  throw Error(ANELLO_ERR_RESOURCE, "too many creations over one store");
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
  Meeting meeting = meeting_at(config.url, launch, wish.timeout_ms);
  // Otherwise the caller's ranks may differ from the launcher's.
  if (config.rank < 0 && config.world_size < 0)
    meeting.ended = EndedRanks::of(static_cast<int>(Config::get().ended_fd), wish.size);
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
