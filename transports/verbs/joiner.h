#pragma once
// Joins the queue pairs of an iWARP port with those of peers. Such a connection is one of TCP, which only the
// connection manager of the two hosts can make: one end listens, and the other, which dials, must be the first to send.
//
// A port has one listener, at a TCP port of its own. Each queue pair has a secret, which its peer hears of over the
// lane's socket (greeting.h): who dials shows it, and nobody else is let in. A thread of the joiner takes the manager's
// events, so that a peer need not wait until this rank calls Anello: adapters give up after a few seconds.
#include "base/unique_fd.h"
#include "transports/verbs/address.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_event_channel;

namespace anello::transport {

// A queue pair that is to be joined. Both are called on the joiner's thread, until forget().
class JoinUser {
 public:
  virtual ~JoinUser() = default;
  // This end has dialled, and may send.
  virtual void may_send() = 0;
  // The joiner knows why.
  virtual void not_joined() = 0;
};

// Where a queue pair is to be found.
struct JoinPlace {
  std::uint32_t tcp_port = 0;
  std::uint64_t secret = 0;
};

class VerbsJoiner {
 public:
  // Listens at the address by which the connection manager knows the port: "siw0", 1. range: of TCP ports
  // (port_range.h). Throws Error.
  VerbsJoiner(std::string device, int port, const std::string& range);
  ~VerbsJoiner();
  VerbsJoiner(const VerbsJoiner&) = delete;
  VerbsJoiner& operator=(const VerbsJoiner&) = delete;

  // As a GID: an IPv6 address, or an IPv4 address mapped into one.
  const std::array<std::uint8_t, 16>& address() const { return address_; }
  // Whether the port still has it.
  bool has_address() const;

  // From now on the peer can dial. reads: of the peer that the queue pair serves at once. Throws Error.
  JoinPlace expect(JoinUser& user, std::uint32_t pair, int reads);
  // Dials the peer's. mine: the secret of the queue pair; reads: that it may begin at once.
  void dial(std::uint64_t mine, const PortAddress& peer, const JoinPlace& its, int reads);
  // Why it has not been joined; "" if that is not known.
  std::string why_not(std::uint64_t mine);
  // Before the queue pair ends.
  void forget(std::uint64_t mine);

 private:
  struct Join;
  using Held = std::unique_lock<std::mutex>;
  rdma_cm_id* bind(const std::array<std::uint8_t, 16>& address, std::uint16_t tcp_port) const;
  void listen(const std::string& range);
  void run();
  void take_events(Held& held);
  void let_in(rdma_cm_id* id, std::uint64_t secret);
  void go_on(Held& held, const std::shared_ptr<Join>& join, int event, int status);
  void call_peer(Held& held, const std::shared_ptr<Join>& join);
  void fail(Join& join, const std::string& why);
  void fail_late();
  int ms_to_next() const;
  void close();

  const std::string device_;
  const int port_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  std::array<std::uint8_t, 16> address_{};
  UniqueFd wake_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Join>> joins_;  // by secret
  bool ends_ = false;
  std::thread thread_;  // from the first queue pair on
};

}  // namespace anello::transport
