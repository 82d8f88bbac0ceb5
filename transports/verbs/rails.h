#pragma once
// The rails of one end of a lane over verbs, and what it tells the other end about them. Pieces go over the rail that
// has the least under way. A rail that fails is ended at both ends, which tell each other how much has come over it;
// the rest goes over the other rails. Once its port has returned, so does the rail. The lane ends with its last rail.
#include "base/unique_fd.h"
#include "transports/verbs/notes.h"
#include "transports/verbs/pages.h"
#include "transports/verbs/rail.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace anello::transport {

class VerbsRails {
 public:
  // Over those of the ports whose adapters have what a rail needs: at least one. Throws Error.
  VerbsRails(int peer, const VerbsPorts& ports, UniqueFd socket, LaneUser& lane);
  VerbsRails(const VerbsRails&) = delete;
  VerbsRails& operator=(const VerbsRails&) = delete;

  std::byte* ring() const { return ring_.data(); }        // the peer writes it
  std::byte* staging() const { return staging_.data(); }  // adapters read it

  // In the order of the greeting.
  VerbsPorts ports() const;
  // Tells the peer what it needs.
  void greet();
  // Whether the rail over the port has failed, and has not returned.
  bool is_lost(const VerbsPort& port) const;
  // Whether the peer can receive over the port's rail.
  bool serves(const VerbsPort& port) const;
  // Over which pieces can go now.
  std::size_t count_open() const;
  bool is_open() const { return count_open() > 0; }
  bool has_opened() const { return has_opened_; }  // once
  // False: no rail can take it.
  bool post(const LanePiece& piece, std::uint32_t number);

  // Takes in what has come.
  void progress();
  // Looks at the socket and the ports, too, which costs system calls. waits: something has not been sent.
  void look(bool waits);
  // Ends the lane.
  void break_off(const std::string& why);
  const std::string& broken() const { return broken_; }  // why nothing moves any more, or ""
  bool is_peer_gone() const { return gone_; }
  // Whether the adapters of all ports have failed.
  bool has_no_adapter() const;
  // "rxe0 port 1, rxe2 port 1"
  std::string name() const;

  // Readable when one of these has something: completions since arm(), the socket, the ports, and a timer.
  int descriptor() const { return events_.get(); }
  void watch(int descriptor) const;
  void arm();
  void drain();
  VerbsCounts counts() const;

 private:
  struct Track {
    std::unique_ptr<VerbsRail> rail;
    int partner = -1;        // the peer's port
    RailOffer theirs;        // its queue pairs
    bool has_offer = false;  // that has not been used
    bool is_ready = false;   // the peer's end; this one is joining
    // Each end says once for each loss of the rail that it has ended, and how much had come to it.
    bool has_told = false, is_told = false;
    std::uint64_t came_there = 0;
  };

  void read_notes();
  RailOffer offer_of(const Track& track);
  void meet();
  void take(const RailNote& note);
  void connect(Track& track);
  void say_ready(Track& track);
  void tell(RailNote::Kind kind, const Track& track);
  bool is_settled(const Track& track) const;
  void look_at_ports();
  void limit_waiting(bool waits);
  void move_on(Track& track);
  void bring_back(Track& track);
  void say_down(Track& track);
  bool all_settled() const;
  const std::string& last_why() const;
  std::size_t count_up() const;
  const VerbsRail* find(const VerbsPort& port) const;
  Track* of_peers(std::uint32_t port);
  void set_timer(std::int64_t at_ns);

  const int peer_;
  LaneUser& lane_;
  UniqueFd socket_;
  NoteExchange notes_;
  VerbsPages ring_, staging_;
  UniqueFd events_;  // epoll
  UniqueFd timer_;
  std::int64_t timer_ns_ = 0;      // when it ends; 0: never
  std::int64_t dead_link_ns_ = 0;  // since when the last rail waits for its link; 0: it does not
  std::vector<Track> rails_;       // by port, in the order of the greeting
  bool settled_ = false;           // no rail changes until a completion, an event, or a note of the peer's own comes
  bool has_opened_ = false;
  bool gone_ = false;  // the peer's socket has ended
  std::string broken_;
};

}  // namespace anello::transport
