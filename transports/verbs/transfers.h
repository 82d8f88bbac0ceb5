#pragma once
// The gets and puts of one peer's memory. They have a queue pair of their own: the lane's frames do not wait behind
// long transfers, and a transfer that the peer's adapter refuses ends this queue pair and not the lane. Then each
// transfer that is pending ends with an error, and so do all later ones.
//
// A transfer moves in pieces that the device allows. Batches of pieces are posted with one completion each, and there
// are at most as many pieces under way as the peer serves reads at once.
#include "transports/remote_memory.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/registrations.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace anello::transport {

class VerbsTransfers {
 public:
  static constexpr std::size_t kMostPieceBytes = 1024 * 1024;
  static constexpr int kMostUnderWay = 16;  // pieces
  static constexpr int kBatches = 2;        // one is under way while the other's completion is awaited

  // A port whose device has no queue pair left makes one that is over.
  VerbsTransfers(int peer, const std::shared_ptr<VerbsPort>& port, VerbsRegistrations& registrations);
  ~VerbsTransfers();
  VerbsTransfers(const VerbsTransfers&) = delete;
  VerbsTransfers& operator=(const VerbsTransfers&) = delete;

  // A new queue pair after the old one is over. A device that has none left makes one that is over.
  void renew();
  VerbsPairName name() const { return is_over() ? VerbsPairName{} : pair_->name(); }
  // The peer's greeting is here.
  void connect(const PortAddress& port, const VerbsPairName& peer);
  // The peer has connected its end.
  void open() { open_ = true; }
  bool is_open() const { return open_ && !is_over(); }
  bool is_over() const { return pair_ == nullptr; }

  // The address of a buffer under which the peer may get it, or put into it. Empty: it is not registered.
  RemoteAddress give_out(const memory::Buffer& buffer, VerbsAccess access, std::shared_ptr<const void>* kept);
  // Whether it can be an address of a peer.
  static bool is_right(std::uint64_t key) { return (key >> 32) != 0; }

  void begin(const Transfer& transfer, bool puts);
  void progress();
  std::optional<Transferred> take_ended();
  bool is_pending() const { return !moving_.empty() || !ended_.empty(); }
  bool has_ended() const { return !ended_.empty(); }
  // As in RemoteMemory.
  void withdraw(Token token);
  // Ends all transfers with an error. Nothing is loaded or stored any more.
  void give_up(const std::string& why);

  // Readable once a completion has come since arm(); -1 if it is over.
  int descriptor() const { return is_over() ? -1 : pair_->descriptor(); }
  void arm() {
    if (!is_over()) pair_->arm();
  }
  const VerbsCounts& counts() const { return is_over() ? counts_ : pair_->counts(); }
  std::uint64_t batches() const { return batches_posted_; }

 private:
  struct Moving {
    Transfer rest;  // what has not been posted
    bool puts = false;
    VerbsRegistrations::Held local;
    int batches = 0;  // that have been posted and not completed
  };
  struct Batch {
    std::uint64_t last = 0;  // the id of its last piece
    Token token = 0;
  };
  // Returns an errno, or 0.
  int why_not(const Transfer& transfer, const VerbsRegistrations::Held& local) const;
  std::uint64_t under_way() const { return posted_ - completed_; }
  void post_batches();
  bool post_batch(Moving& moving);
  void poll();
  void take(const ibv_wc& completion);
  void take_batch(const Batch& batch);
  std::deque<Moving>::iterator find(Token token);
  void stop();

  const int peer_;
  const std::shared_ptr<VerbsPort> port_;
  VerbsRegistrations& registrations_;
  std::unique_ptr<VerbsQueuePair> pair_;  // null: it is over
  VerbsCounts counts_;                    // of a queue pair that is over
  const std::size_t piece_bytes_;
  bool open_ = false;
  std::deque<Moving> moving_;
  std::deque<Batch> batches_;  // in the order of posting, which is that of completion
  std::deque<Transferred> ended_;
  std::uint64_t posted_ = 0;  // pieces, whose ids are their numbers
  std::uint64_t completed_ = 0;
  std::int64_t moved_ns_ = 0;  // when a piece ended, or the first of those under way was posted
  std::uint64_t batches_posted_ = 0;
};

}  // namespace anello::transport
