#pragma once
// One rail of the gets and puts of a peer's memory (transfers.h): a queue pair of one port, which is not the lane's.
// The lane's frames do not wait behind long transfers, and a transfer that the peer's adapter refuses does not end the
// lane.
//
// A part of a transfer is posted as a batch of pieces that the device allows, with one completion. There are at most as
// many pieces under way as the peer serves reads at once.
#include "transports/remote_memory.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/registrations.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace anello::transport {

class VerbsTransferRail {
 public:
  static constexpr std::size_t kMostPieceBytes = 1024 * 1024;
  static constexpr int kMostUnderWay = 16;  // pieces
  static constexpr int kBatches = 2;        // one is under way while the other's completion is awaited

  // A port whose device has no queue pair left makes one that is over. registrations: of the same port.
  VerbsTransferRail(std::shared_ptr<VerbsPort> port, VerbsRegistrations& registrations);
  ~VerbsTransferRail();
  VerbsTransferRail(const VerbsTransferRail&) = delete;
  VerbsTransferRail& operator=(const VerbsTransferRail&) = delete;

  const VerbsPort& port() const { return *port_; }
  VerbsRegistrations& registrations() const { return registrations_; }
  // The queue pair to tell the peer of. Each call but the first makes a new one, after the old one is over.
  VerbsPairName offer();
  bool was_offered() const { return offered_; }
  // With the queue pair of the peer's port that has that place in its greeting. Returns "" or why it cannot.
  std::string connect(std::size_t partner, const PortAddress& port, const VerbsPairName& peer);
  std::size_t partner() const { return partner_; }
  // The peer has connected its end.
  void open() { open_ = true; }
  bool is_open() const { return open_ && !is_over() && pair_->is_joined(); }
  // Over iWARP it takes a while until poll() shows that the queue pair has been joined, or that it cannot be.
  bool is_joining() const { return is_connected_ && !is_over() && !pair_->is_joined(); }
  bool is_over() const { return pair_ == nullptr; }
  const std::string& why() const { return why_; }  // it is over
  // Which queue pair it is, counted from 0.
  std::uint16_t round() const { return round_; }

  struct Part {
    Token token = 0;
    bool puts = false;
    std::byte* local = nullptr;
    std::uint32_t local_key = 0;
    std::uint64_t remote = 0;
    std::uint32_t remote_key = 0;
    std::size_t bytes = 0;
  };
  // The most bytes of a part that can be posted now.
  std::size_t room() const;
  std::size_t under_way() const { return bytes_under_way_; }
  // At most room() bytes. Returns "" or why the queue pair has failed.
  std::string post(const Part& part);
  // Adds the parts that have ended to *ended. Returns "" or why the queue pair has failed; *refused: what had been
  // asked for was wrong, and would be over another port.
  std::string poll(std::vector<Part>* ended, bool* refused);
  // When a piece ended, or the first of those under way was posted.
  std::int64_t moved_ns() const { return moved_ns_; }
  // Nothing is loaded or stored any more. Returns the parts that have not ended.
  std::vector<Part> end(const std::string& why);

  // Readable once a completion has come since arm(); -1 if it is over.
  int descriptor() const { return is_over() ? -1 : pair_->descriptor(); }
  void arm() {
    if (!is_over()) pair_->arm();
  }
  const VerbsCounts& counts() const { return is_over() ? counts_ : pair_->counts(); }
  std::uint64_t batches() const { return batches_posted_; }

  // Once for each queue pair that is over.
  bool must_tell_end() const { return is_over() && !has_told_end_; }
  void has_told_end() { has_told_end_ = true; }

 private:
  struct Batch {
    std::uint64_t last = 0;  // the id of its last piece
    Part part;
  };
  std::uint64_t pieces_under_way() const { return posted_ - completed_; }
  void make();
  void stop();

  const std::shared_ptr<VerbsPort> port_;
  VerbsRegistrations& registrations_;
  std::unique_ptr<VerbsQueuePair> pair_;  // null: it is over
  VerbsCounts counts_;                    // of a queue pair that is over
  const std::size_t piece_bytes_;
  std::size_t partner_ = 0;
  bool offered_ = false, is_connected_ = false, open_ = false, has_told_end_ = false;
  std::uint16_t round_ = 0;
  std::string why_;
  std::deque<Batch> batches_;  // in the order of posting, which is that of completion
  std::size_t bytes_under_way_ = 0;
  std::uint64_t posted_ = 0;  // pieces, whose ids are their numbers
  std::uint64_t completed_ = 0;
  std::int64_t moved_ns_ = 0;
  std::uint64_t batches_posted_ = 0;
};

}  // namespace anello::transport
