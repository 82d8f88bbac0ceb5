#pragma once
// The process's door: its listening sockets, the connections that have not proved themselves yet (at most
// kMaxStrangers, the oldest give way), and the rooms that proved ones are shown to. One Unix listener serves all ranks
// of the process; others are opened where somebody asked for their address. Service thread only.
#include "control/address.h"
#include "control/admission.h"

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace anello::control {

inline constexpr std::size_t kMaxStrangers = 64;

struct Visitor {
  std::shared_ptr<Stream> stream;
  Purpose purpose{};
  int from = -1;
  std::uint32_t version = kWireVersion;  // another one than ours: only to be told of; stream is empty
};

struct Room {
  Expected expected;
  std::function<void(Visitor)> enter;
};

// Listening ends with the last copy of the pointer.
class Listener {
 public:
  Listener(Service& service, UniqueFd socket);
  ~Listener();
  const Address& address() const { return address_; }

 private:
  friend class Door;
  Address address_;
  std::shared_ptr<Stream> stream_;
};

class Door {
 public:
  explicit Door(Service& service) : service_(service) {}

  // The process's own Unix listener, under a random name. Throws Error.
  std::shared_ptr<Listener> unix_listener();
  // Shared by all who ask for the same address. Empty: in use by another process. Throws Error.
  std::shared_ptr<Listener> listen(const Address& address);

  void add(const JobId& job, int to, Room room) { rooms_[{job, to}] = std::move(room); }
  void remove(const JobId& job, int to) { rooms_.erase({job, to}); }

  // Ends all listening and all handshakes.
  void close();

  std::uint64_t strangers_turned_away() const { return turned_away_; }

 private:
  struct Guest {
    std::shared_ptr<Stream> stream;
  };
  static Task<> accept(Service& service, Door* door, std::shared_ptr<Stream> listening);
  static Task<> receive(Service& service, Door* door, std::list<Guest>::iterator guest);
  void turned_away(const std::string& why);

  Service& service_;
  std::map<std::pair<JobId, int>, Room> rooms_;
  std::weak_ptr<Listener> own_;
  std::map<std::string, std::weak_ptr<Listener>> listeners_;  // by described address
  std::list<Guest> guests_;                                   // oldest first
  std::uint64_t turned_away_ = 0;
  std::uint64_t logged_ = 0;
  std::int64_t logged_at_ns_ = 0;
};

}  // namespace anello::control
