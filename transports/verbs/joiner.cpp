#include "transports/verbs/joiner.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port_range.h"
#include "base/text.h"
#include "transports/verbs/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>

namespace anello::transport {
namespace {

using Address = std::array<std::uint8_t, 16>;

// For a host to be found, and for a peer's joiner to answer.
constexpr int kResolveMs = 5000;
constexpr std::int64_t kDialNs = 20'000'000'000;
constexpr int kBacklog = 256;
constexpr int kNoMemoryMs = 10;

// What who dials shows.
struct Ticket {
  static constexpr std::uint64_t kMagic = 0x31706177'69766e61;  // "anviwap1"
  std::uint64_t magic = kMagic;
  std::uint64_t secret = 0;
};

struct SocketAddress {
  SocketAddress(const Address& address, std::uint32_t port) {
    const bool is_ipv4 = std::equal(address.begin(), address.begin() + 12, kMapped.begin());
    if (is_ipv4) {
      auto& four = reinterpret_cast<sockaddr_in&>(storage);
      four.sin_family = AF_INET;
      four.sin_port = htons(std::uint16_t(port));
      std::memcpy(&four.sin_addr, &address[12], 4);
    } else {
      auto& six = reinterpret_cast<sockaddr_in6&>(storage);
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(std::uint16_t(port));
      std::memcpy(&six.sin6_addr, address.data(), 16);
    }
  }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }

  static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  sockaddr_storage storage{};
};

// Those of this host that others can reach: IPv4 before IPv6.
std::vector<Address> addresses_of_host() {
  std::vector<Address> fours, sixes;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw system_error("getifaddrs", errno);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    Address address{};
    if (each->ifa_addr->sa_family == AF_INET) {
      std::copy(SocketAddress::kMapped.begin(), SocketAddress::kMapped.end(), address.begin());
      std::memcpy(&address[12], &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, 4);
      if (address[12] != 127) fours.push_back(address);
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& its = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
      std::memcpy(address.data(), &its, 16);
      if (!IN6_IS_ADDR_LINKLOCAL(&its) && !IN6_IS_ADDR_LOOPBACK(&its)) sixes.push_back(address);
    }
  }
  ::freeifaddrs(list);
  fours.insert(fours.end(), sixes.begin(), sixes.end());
  return fours;
}

std::uint64_t random_secret() {
  std::uint64_t secret = 0;
  if (::getrandom(&secret, sizeof secret, 0) != sizeof secret) throw system_error("getrandom", errno);
  return secret;
}

const char* why_of(int event) {
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR: return "its address cannot be found";
    case RDMA_CM_EVENT_ROUTE_ERROR: return "there is no route to its address";
    case RDMA_CM_EVENT_UNREACHABLE: return "its adapter does not answer";
    case RDMA_CM_EVENT_REJECTED: return "its end does not take the connection";
    default: return "the connection cannot be made";
  }
}

}  // namespace

struct VerbsJoiner::Join {
  JoinUser* user = nullptr;  // null: it is forgotten
  std::uint64_t mine = 0;
  std::uint32_t pair = 0;
  int served = 0, begun = 0;  // reads
  PortAddress peer;
  JoinPlace its;
  rdma_cm_id* id = nullptr;
  bool is_dialling = false;
  bool is_busy = false;       // the thread calls the peer, without the lock
  std::int64_t until_ns = 0;  // 0: it does not wait
  std::string why_not;
};

// ---- The listener ----

VerbsJoiner::VerbsJoiner(std::string device, int port, const std::string& range)
    : device_(std::move(device)), port_(port), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw system_error("eventfd", errno);
  channel_ = connection_manager().create_channel();
  if (channel_ == nullptr)
    throw Error(ANELLO_ERR_SYSTEM, text(system_text("rdma_create_event_channel", errno),
                                        "; is the kernel's module rdma_ucm loaded, and may this user open "
                                        "/dev/infiniband/rdma_cm?"));
  remember_descriptor(channel_->fd);
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  try {
    listen(range);
  } catch (const Error&) {
    close();
    throw;
  }
}

// A socket of the manager's that is bound to the address. Null: the manager says that the address is not this port's,
// or the TCP port is in use.
rdma_cm_id* VerbsJoiner::bind(const Address& address, std::uint16_t tcp_port) const {
  SocketAddress at(address, tcp_port);
  rdma_cm_id* id = nullptr;
  if (connection_manager().create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0)
    throw system_error("rdma_create_id", errno);
  const bool is_its = connection_manager().bind(id, at.get()) == 0 && id->verbs != nullptr && id->port_num == port_ &&
                      device_ == id->verbs->device->name;
  if (is_its) return id;
  connection_manager().destroy_id(id);
  return nullptr;
}

void VerbsJoiner::listen(const std::string& range) {
  const std::vector<Address> all = addresses_of_host();
  const auto its = std::find_if(all.begin(), all.end(), [this](const Address& each) {
    address_ = each;
    return has_address();
  });
  if (its == all.end())
    throw Error(ANELLO_ERR_SYSTEM, "no address for iWARP: give its network interface an IP address");
  for (const std::uint16_t tcp_port : ports_in_turn(range)) {
    listener_ = bind(address_, tcp_port);
    if (listener_ == nullptr) continue;
    if (connection_manager().listen(listener_, kBacklog) == 0) return;
    const int why = errno;
    connection_manager().destroy_id(std::exchange(listener_, nullptr));
    if (why != EADDRINUSE) throw system_error("rdma_listen", why);
  }
  throw Error(ANELLO_ERR_ADDRESS,
              text("no TCP port for iWARP: all of ANELLO_PORT_RANGE=", range, " are in use at this port's address"));
}

bool VerbsJoiner::has_address() const {
  try {
    rdma_cm_id* const id = bind(address_, 0);
    if (id != nullptr) connection_manager().destroy_id(id);
    return id != nullptr;
  } catch (const Error&) {
    return false;
  }
}

// A child has no thread.
VerbsJoiner::~VerbsJoiner() {
  if (in_forked_child()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const Held held(mutex_);
    ends_ = true;
    ::eventfd_write(wake_.get(), 1);
  }
  if (thread_.joinable()) thread_.join();
  close();
}

void VerbsJoiner::close() {
  if (listener_ != nullptr) connection_manager().destroy_id(listener_);
  forget_descriptor(channel_->fd);
  connection_manager().destroy_channel(channel_);
}

// ---- Queue pairs ----

JoinPlace VerbsJoiner::expect(JoinUser& user, std::uint32_t pair, int reads) {
  const auto join = std::make_shared<Join>();
  join->user = &user;
  join->mine = random_secret();
  join->pair = pair;
  join->served = reads;
  const Held held(mutex_);
  joins_[join->mine] = join;
  if (!thread_.joinable()) {
    // Signals are for the threads of the program.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  return {ntohs(connection_manager().port_of(listener_)), join->mine};
}

void VerbsJoiner::dial(std::uint64_t mine, const PortAddress& peer, const JoinPlace& its, int reads) {
  const Held held(mutex_);
  const auto found = joins_.find(mine);
  if (found == joins_.end()) return;
  Join& join = *found->second;
  join.is_dialling = true;
  join.peer = peer;
  join.its = its;
  join.begun = reads;
  join.until_ns = now_ns() + kDialNs;
  SocketAddress from(address_, 0), to(peer.gid, its.tcp_port);
  if (connection_manager().create_id(channel_, &join.id, found->second.get(), RDMA_PS_TCP) != 0) {
    fail(join, system_text("rdma_create_id", errno));
  } else if (connection_manager().resolve_address(join.id, from.get(), to.get(), kResolveMs) != 0) {
    fail(join, system_text("rdma_resolve_addr", errno));
  }
  ::eventfd_write(wake_.get(), 1);  // there is a deadline
}

std::string VerbsJoiner::why_not(std::uint64_t mine) {
  const Held held(mutex_);
  const auto found = joins_.find(mine);
  return found == joins_.end() ? "" : found->second->why_not;
}

void VerbsJoiner::forget(std::uint64_t mine) {
  const Held held(mutex_);
  const auto found = joins_.find(mine);
  if (found == joins_.end()) return;
  Join& join = *found->second;
  join.user = nullptr;
  if (join.id != nullptr && !join.is_busy) connection_manager().destroy_id(join.id);
  joins_.erase(found);
}

void VerbsJoiner::fail(Join& join, const std::string& why) {
  if (join.user == nullptr || !join.why_not.empty()) return;
  join.why_not = text("no connection to ", PortAddress(join.peer).text(), " TCP port ", join.its.tcp_port, ": ", why);
  join.until_ns = 0;
  join.user->not_joined();
}

// ---- The thread ----

void VerbsJoiner::run() {
  while (true) {
    int wait_ms = 0;
    {
      const Held held(mutex_);
      if (ends_) return;
      wait_ms = ms_to_next();
    }
    std::array<pollfd, 2> all{{{channel_->fd, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    ::poll(all.data(), all.size(), wait_ms);
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    Held held(mutex_);
    try {
      take_events(held);
      fail_late();
    } catch (const std::bad_alloc&) {  // who waits for an answer fails at its deadline
      held.unlock();
      ::poll(nullptr, 0, kNoMemoryMs);
    }
  }
}

int VerbsJoiner::ms_to_next() const {
  std::int64_t next_ns = INT64_MAX;
  for (const auto& [mine, join] : joins_) {
    if (join->until_ns > 0) next_ns = std::min(next_ns, join->until_ns);
  }
  if (next_ns == INT64_MAX) return -1;
  return int(std::max<std::int64_t>((next_ns - now_ns()) / 1'000'000 + 1, 0));
}

void VerbsJoiner::fail_late() {
  for (const auto& [mine, join] : joins_) {
    if (join->until_ns > 0 && now_ns() > join->until_ns)
      fail(*join, text("nothing has come for ", kDialNs / 1'000'000'000, " s"));
  }
}

// An identity cannot be destroyed before its events are acknowledged.
void VerbsJoiner::take_events(Held& held) {
  rdma_cm_event* event = nullptr;
  while (!ends_ && connection_manager().get_event(channel_, &event) == 0) {
    rdma_cm_id* const id = event->id;
    const int what = event->event, status = event->status;
    Ticket ticket{};
    if (what == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data_len >= sizeof ticket)
      std::memcpy(&ticket, event->param.conn.private_data, sizeof ticket);
    connection_manager().ack_event(event);
    if (what == RDMA_CM_EVENT_CONNECT_REQUEST) {
      let_in(id, ticket.magic == Ticket::kMagic ? ticket.secret : 0);
      continue;
    }
    const auto found =
        std::find_if(joins_.begin(), joins_.end(), [id](const auto& each) { return each.second->id == id; });
    if (found != joins_.end()) go_on(held, std::shared_ptr<Join>(found->second), what, status);
  }
}

void VerbsJoiner::let_in(rdma_cm_id* id, std::uint64_t secret) {
  const auto found = joins_.find(secret);
  if (found != joins_.end() && found->second->id == nullptr) {
    Join& join = *found->second;
    rdma_conn_param how{};
    how.qp_num = join.pair;
    how.responder_resources = std::uint8_t(join.served);
    how.initiator_depth = std::uint8_t(join.served);
    if (connection_manager().accept(id, &how) == 0) {
      join.id = id;
      return;
    }
    log::info(-1, device_, ": a peer's connection cannot be taken: ", system_text("rdma_accept", errno));
  } else {
    log::info(-1, device_, ": a connection without the secret of a queue pair is refused");
  }
  connection_manager().reject(id, nullptr, 0);
  connection_manager().destroy_id(id);
}

void VerbsJoiner::go_on(Held& held, const std::shared_ptr<Join>& join, int event, int status) {
  if (!join->is_dialling || join->until_ns == 0) return;
  switch (event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (connection_manager().resolve_route(join->id, kResolveMs) != 0)
        fail(*join, system_text("rdma_resolve_route", errno));
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: return call_peer(held, join);
    case RDMA_CM_EVENT_ESTABLISHED: join->until_ns = 0; return join->user->may_send();
    default: return fail(*join, text(why_of(event), " (", std::strerror(status < 0 ? -status : status), ")"));
  }
}

// Soft iWARP waits for the peer's kernel in this call.
void VerbsJoiner::call_peer(Held& held, const std::shared_ptr<Join>& join) {
  const Ticket ticket{.secret = join->its.secret};
  rdma_conn_param how{};
  how.private_data = &ticket;
  how.private_data_len = sizeof ticket;
  how.qp_num = join->pair;
  how.responder_resources = std::uint8_t(join->served);
  how.initiator_depth = std::uint8_t(join->begun);
  join->is_busy = true;
  held.unlock();
  const int error = connection_manager().connect(join->id, &how) == 0 ? 0 : errno;
  held.lock();
  join->is_busy = false;
  if (join->user == nullptr) {
    connection_manager().destroy_id(join->id);
  } else if (error != 0) {
    fail(*join, system_text("rdma_connect", error));
  }
}

}  // namespace anello::transport
