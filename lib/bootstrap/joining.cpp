#include "bootstrap/joining.h"

#include "base/config.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/launcher.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/rendezvous_root.h"
#include "bootstrap/tuning_file.h"
#include "control/dial.h"
#include "control/host.h"
#include "control/interfaces.h"
#include "transports/registry.h"

#include <cstdlib>
#include <future>
#include <utility>
#include <vector>

namespace anello::bootstrap {
namespace {

using namespace control;

// Added to the deadline that the service thread itself keeps.
constexpr std::int64_t kServiceGraceMs = 15'000;

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

Task<> knock(asio::io_context& io, Call call, std::shared_ptr<std::promise<bool>> answer) {
  try {
    const std::shared_ptr<Stream> stream = co_await dial(io, std::move(call));
    stream->close();
    answer->set_value(true);
  } catch (const Error&) {
    answer->set_value(false);
  }
}

// An address that all ranks reach, even if they meet elsewhere: torchrun's store is at MASTER_ADDR.
std::string known_to_all() {
  const std::string host = launcher_address([](const char* name) { return secure_getenv(name); });
  if (host.empty()) return {};
  constexpr std::int64_t kResolveMs = 5'000;
  try {
    return resolve(host, kResolveMs);
  } catch (const Error&) {
    return {};  // a name for others
  }
}

}  // namespace

// Of another rank than 0 nobody asks for its table.
Shared settings_of(int rank, std::int64_t silence_ms) {
  const Config& config = Config::get();
  TuningFile tuning;
  if (rank == 0) tuning = find_tuning(config, [](const char* name) { return secure_getenv(name); });
  return {config.algorithm, config.chunk_bytes, config.first_sequence, silence_ms, config.invariant, std::move(tuning)};
}

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

bool host(const Meeting& meeting, Address* tcp) {
  ServiceHold hold = ServiceHold::take();
  ServiceHold for_root = ServiceHold::take();
  auto root = std::make_shared<RendezvousRoot>(std::move(for_root), meeting);
  const bool opened = on_service(hold, [root] { return root->open(); });
  if (tcp != nullptr) *tcp = root->tcp_address();
  if (tcp != nullptr && *tcp && !Config::get().advertise.empty()) tcp->ip = Config::get().advertise;
  // The service thread releases its own references there.
  hold->post([root = std::move(root)]() mutable { root.reset(); });
  return opened;
}

std::string address_for_others() {
  const std::string destination = known_to_all();
  const std::string& filter = Config::get().interface;
  return filter.empty() ? address_towards(destination) : address_of_interface(filter, destination);
}

bool is_open(const Meeting& meeting, std::int64_t limit_ms) {
  ServiceHold hold = ServiceHold::take();
  Call call;
  call.addresses = meeting.reach;
  call.credentials = {meeting.job, meeting.key, meeting.same_user, Purpose::rendezvous, 0, -1, kWireVersion};
  call.deadline = Deadline::in_ms(limit_ms);
  call.must_exist = true;
  auto answer = std::make_shared<std::promise<bool>>();
  std::future<bool> open = answer->get_future();
  Service* const service = &*hold;
  hold->post([service, call = std::move(call), answer]() mutable {
    service->spawn("knock", knock(service->io(), std::move(call), answer));
  });
  return open.wait_for(std::chrono::milliseconds(limit_ms + kServiceGraceMs)) == std::future_status::ready &&
         open.get();
}

}  // namespace anello::bootstrap
