#pragma once
// Connections that have not proved themselves yet: where they come from, and who gives way where they are too many.
// Those of this process's own user (the kernel tells of Unix sockets) have places that nobody else can take from them.
// Of the others the source that has most places, a user of this host or an address, gives way to the rest. Service
// thread only.
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
  std::string name;  // for people, and to tell sources apart
  static Source of(int socket);
};

struct Guest {
  std::shared_ptr<Stream> stream;
  Source source;
  std::int64_t since_ns = 0;
  std::uint64_t number = 0;
  std::string why;  // it was turned out; empty: it was not
};

class Guests {
 public:
  std::shared_ptr<Guest> seat(std::shared_ptr<Stream> stream, Source source);
  void leave(const Guest& guest);
  // Closes the connection of the one who is to give way, if there is one, and takes its place away.
  std::shared_ptr<Guest> turn_out(bool own, const std::string& why);
  std::size_t count(bool own) const { return (own ? own_ : others_).size(); }
  // Of the own user's. 0: there is none.
  std::int64_t oldest_own_since_ns() const { return own_.empty() ? 0 : own_.begin()->second->since_ns; }

  void proved(const Source& source);
  // Somebody from there has proved himself: who is late from there is a slow rank sooner than a stranger.
  bool known(const Source& source) const { return source.own || proved_.contains(source.name); }

 private:
  using ByAge = std::map<std::uint64_t, std::shared_ptr<Guest>>;
  ByAge own_, others_;
  std::map<std::string, std::size_t> places_of_;  // the others', by source
  std::set<std::string> proved_;
  std::uint64_t next_ = 0;
};

}  // namespace anello::control
