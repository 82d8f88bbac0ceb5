#pragma once
// The gets and puts of one peer's memory, over every port that goes with one of the peer's. A transfer is cut into
// parts of which each goes over the rail with the least under way (transfer_rail.h). The parts of a get that were under
// way on a rail that is lost go over the others. A refusal of the peer's adapter ends all rails: then each transfer
// that is pending ends with an error, and so do all later ones.
#include "transports/verbs/memory_keys.h"
#include "transports/verbs/transfer_rail.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace anello::transport {

class VerbsTransfers {
 public:
  // A part is not shorter: its completion would cost more than a second rail gains.
  static constexpr std::size_t kLeastPart = 128 * 1024;

  struct Port {
    std::shared_ptr<VerbsPort> port;
    VerbsRegistrations* registrations = nullptr;
  };
  // ports: in the order of the greeting; the first one's keys are in addresses.
  VerbsTransfers(int peer, const std::vector<Port>& ports);
  VerbsTransfers(const VerbsTransfers&) = delete;
  VerbsTransfers& operator=(const VerbsTransfers&) = delete;

  // By port, in the same order.
  const std::vector<std::unique_ptr<VerbsTransferRail>>& rails() const { return rails_; }
  // Null: it has no rail.
  VerbsTransferRail* find(const VerbsPort& port) const;
  // The queue pair to tell the peer of, for the first time or after the port was lost.
  VerbsPairName offer(VerbsTransferRail& rail);
  // The peer has offered that queue pair.
  void connect(VerbsTransferRail& rail, std::size_t partner, const PortAddress& port, const VerbsPairName& peer);
  // What was under way there goes over the others.
  void lose(VerbsTransferRail& rail, const std::string& why);
  // Takes in that queue pairs have been joined, or that they cannot be.
  void look_for_joining();
  bool is_open() const;  // any of the rails
  bool is_over() const;  // all of them

  // The address of a buffer under which the peer may get it, or put into it. Empty: it is not registered.
  RemoteAddress give_out(const memory::Buffer& buffer, VerbsAccess access, std::shared_ptr<const void>* kept);
  // The peer must be told these before the next address. Null: it has been told all.
  const MemoryKeys* next_untold() const { return untold_.empty() ? nullptr : &untold_.front(); }
  void told() { untold_.pop_front(); }
  // The peer has told them.
  void learn(const MemoryKeys& keys) { theirs_.note(keys); }
  // Whether it can be an address of a peer.
  static bool is_right(std::uint64_t key) { return (key >> 32) != 0; }

  void begin(const Transfer& transfer, bool puts);
  void progress();
  std::optional<Transferred> take_ended();
  bool is_pending() const { return !moving_.empty() || !ended_.empty(); }
  bool has_ended() const { return !ended_.empty(); }
  // As in RemoteMemory.
  void withdraw(Token token);
  // Ends all rails, and all transfers with an error.
  void give_up(const std::string& why);

  void arm();
  VerbsCounts counts() const;
  std::uint64_t batches() const;

 private:
  struct Range {
    std::size_t offset = 0, bytes = 0;
  };
  struct Moving {
    Transfer whole;
    bool puts = false;
    std::vector<Range> rest = {};                            // not posted
    std::array<VerbsRegistrations::Held, kMostRails> local;  // by rail, once it is used
    int parts = 0;                                           // posted, and not ended
    int error = 0;
  };
  // Returns an errno, or 0.
  int why_not(Moving& moving);
  bool serves(std::size_t rail, Moving& moving);
  std::size_t count_serving(Moving& moving);
  void post_parts();
  bool post_part(Moving& moving);
  void poll();
  void ended(const VerbsTransferRail::Part& part);
  void end_if_done(std::deque<Moving>::iterator moving);
  std::deque<Moving>::iterator find(Token token);

  const int peer_;
  std::vector<std::unique_ptr<VerbsTransferRail>> rails_;
  KeyBook mine_, theirs_;
  std::deque<MemoryKeys> untold_;
  std::deque<Moving> moving_;
  std::deque<Transferred> ended_;
};

}  // namespace anello::transport
