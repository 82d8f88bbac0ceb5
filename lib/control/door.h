#pragma once
// The process's door: its listening sockets, the connections that have not proved themselves yet (guests.h), and the
// rooms to which proved connections go. One Unix listener serves all ranks of the process; others are opened on
// request. Service thread only.
#include "control/address.h"
#include "control/admission.h"
#include "control/guests.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace anello::control {

// Places for connections that may come from strangers. In addition there is one place for each rank that a room
// expects.
inline constexpr std::size_t kMaxStrangers = 64;

struct Visitor {
  std::shared_ptr<Stream> stream;
  Purpose purpose{};
  int from = -1;
  std::uint32_t version = kWireVersion;  // differs from ours: only for the report; stream is empty
};

struct Room {
  Expected expected;
  std::function<void(Visitor)> enter;
  std::size_t ranks = 0;  // connections that may arrive all at once
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

class Door : public std::enable_shared_from_this<Door> {
 public:
  explicit Door(Service& service) : service_(service) {}

  // The process's own Unix listener, under a random name. Throws Error.
  std::shared_ptr<Listener> unix_listener();
  // All callers with the same address share it. Empty: another process uses the address. Throws Error.
  std::shared_ptr<Listener> listen(const Address& address);

  void add(const JobId& job, int to, Room room);
  void remove(const JobId& job, int to);
  // This many ranks may come to the room, as far as is known now.
  void expect(const JobId& job, int to, std::size_t ranks);

 private:
  static Task<> accept(std::shared_ptr<Door> door, std::shared_ptr<Stream> listening);
  static Task<> make_place(std::shared_ptr<Door> door, bool own);
  static Task<> receive(std::shared_ptr<Door> door, std::shared_ptr<Guest> guest);
  std::size_t places() const { return kMaxStrangers + expected_; }
  std::string seat(UniqueFd socket, Source source);  // the reason for a refusal; empty: it is seated
  void make_descriptor_free();
  void turned_away(const Source& source, const std::string& why);

  Service& service_;
  std::map<std::pair<JobId, int>, Room> rooms_;
  std::size_t expected_ = 0;  // ranks in all rooms
  std::weak_ptr<Listener> own_;
  std::map<std::string, std::weak_ptr<Listener>> listeners_;  // by described address
  Guests guests_;
  std::uint64_t turned_away_ = 0;
  std::uint64_t logged_ = 0;
  std::int64_t logged_at_ns_ = 0;
};

}  // namespace anello::control
