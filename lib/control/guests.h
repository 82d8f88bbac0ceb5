#pragma once
// Connections that have not proved themselves yet, their sources, and the choice of the one to close when there are too
// many. Connections of this process's own user (the kernel reports it for Unix sockets) have reserved places. Among the
// others, the source with the most places, a user of this host or an address, loses one. Service thread only.
#include "control/stream.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace anello::control {

struct Source {
  bool own = false;  // this process's user
  std::string name;  // for people, and to distinguish sources
  static Source of(int socket);
};

struct Guest {
  std::shared_ptr<Stream> stream;
  Source source;
  std::int64_t since_ns = 0;
  std::uint64_t number = 0;
  std::string why;  // why it was turned out; empty: it was not
};

class Guests {
 public:
  std::shared_ptr<Guest> seat(std::shared_ptr<Stream> stream, Source source);
  void leave(const Guest& guest);
  // Closes the connection that must make room, if there is one, and frees its place.
  std::shared_ptr<Guest> turn_out(bool own, const std::string& why);
  std::size_t count(bool own) const { return (own ? own_ : others_).size(); }
  // For the own user's connections. 0: there is none.
  std::int64_t oldest_own_since_ns() const { return own_.empty() ? 0 : own_.begin()->second->since_ns; }

  void proved(const Source& source);
  // A connection from that source has proved itself: a late connection from there is more likely a slow rank than a
  // stranger.
  bool known(const Source& source) const { return source.own || proved_.contains(source.name); }

 private:
  using ByAge = std::map<std::uint64_t, std::shared_ptr<Guest>>;
  ByAge own_, others_;
  std::map<std::string, std::size_t> places_of_;  // the others', by source
  std::set<std::string> proved_;
  std::uint64_t next_ = 0;
};

}  // namespace anello::control
