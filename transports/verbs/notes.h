#pragma once
// What the ends of a lane tell each other over the socket that control has authenticated: a greeting first, then notes
// about their rails. The socket's end shows that the peer has ended.
#include "transports/verbs/greeting.h"

#include <cstddef>
#include <cstdint>

namespace anello::transport {

struct RailNote {
  enum Kind : std::uint32_t {
    ready = 1,  // the sender's end of the rail can receive
    down = 2,   // nothing comes or goes there any more
    offer = 3,  // a new queue pair for a rail that is down
  };

  std::uint32_t kind = 0;
  std::uint32_t port = 0;  // the sender's: its place in the sender's greeting
  std::uint64_t came = 0;  // down: immediates that have come to the sender's queue pair
  RailOffer offered;       // offer

  bool is_right(std::size_t ports) const;
};
static_assert(sizeof(RailNote) == 96);

class NoteExchange {
 public:
  // Requires a connected socket.
  explicit NoteExchange(int fd) : fd_(fd) {}

  // False: the peer is gone, or has not read what was said before.
  bool say(const VerbsGreeting& mine);
  bool say(const RailNote& note);
  enum class News { none, greeting, note, gone, corrupt };
  // Looks once, without waiting.
  News look();
  const VerbsGreeting& theirs() const { return theirs_; }
  const RailNote& note() const { return note_; }

 private:
  int fd_;
  VerbsGreeting theirs_;
  RailNote note_;
  bool has_greeted_ = false;
  std::size_t came_ = 0;  // bytes of what comes next
};

}  // namespace anello::transport
