#pragma once
// One end of a lane over verbs: its rails, the two halves of its ring, the rest of a detached frame, and the lane's
// failure. Beside the lane it has the way to the peer's memory.
#include "transports/verbs/inflow.h"
#include "transports/verbs/outflow.h"
#include "transports/verbs/rails.h"
#include "transports/verbs/remote_memory.h"

#include <cstdint>
#include <memory>

namespace anello::transport {

class VerbsEndpoint final : public Endpoint, private LaneUser {
 public:
  // memory outlives it. Throws Error.
  VerbsEndpoint(int peer, VerbsRemoteMemory& memory, UniqueFd socket);
  ~VerbsEndpoint() override;
  VerbsEndpoint(const VerbsEndpoint&) = delete;
  VerbsEndpoint& operator=(const VerbsEndpoint&) = delete;

  bool send(const FrameHeader& header, const std::byte* payload) override;
  bool mid_frame() const override { return !held_ && out_.mid_frame(); }
  void detach() override;
  bool flush() override;
  std::size_t on_the_way() override;

  const FrameHeader* incoming() override;
  std::size_t remaining() const override { return in_.remaining(); }
  std::size_t receive(std::byte* into, std::size_t bytes) override;
  std::span<const std::byte> view() override;
  void consume(std::size_t bytes) override;
  std::size_t arrived() override;

  const Error* failure() const override { return failure_ ? &failure_ : nullptr; }
  std::string trouble() const override;
  int descriptor() const override { return rails_.descriptor(); }
  bool must_be_polled() const override { return true; }
  bool before_sleep() override;

  VerbsCounts counts() const { return rails_.counts(); }
  std::size_t rails_up() const { return rails_.count_open(); }
  const VerbsTransfers& transfers() const { return transfers_; }

 private:
  void came(std::uint32_t number) override;
  void sent(const LanePiece& piece) override { out_.sent(piece); }
  void lost(const LanePiece& piece) override { out_.lost(piece); }
  VerbsPairName offers(const VerbsPort& port) override;
  void is_offered(const VerbsPort& port, std::size_t partner, const RailOffer& theirs) override;

  void progress();
  void look();
  void look_at_transfers();
  void peer_has_no_memory(std::size_t port, std::uint16_t round);
  bool tell_keys();
  bool write(const FrameHeader& header, const std::byte* payload);
  // The peer has said goodbye, and all that it sent before has come.
  bool is_closed() const { return says_goodbye_ && std::uint16_t(in_.came()) == sent_there_; }
  // Nothing more can come.
  bool is_over() const { return is_closed() || !rails_.broken().empty(); }
  void fail_if_over();
  void finish_sending();

  const int peer_;
  VerbsRemoteMemory& memory_;
  VerbsRails rails_;
  VerbsTransfers transfers_;
  VerbsInflow in_;
  VerbsOutflow out_;

  FrameHeader header_;  // of the frame under way
  const std::byte* payload_ = nullptr;
  std::unique_ptr<std::byte[]> spare_;  // its payload after detach; made early, because the data path cannot fail
  bool held_ = false;                   // the frame under way is in spare_
  unsigned turns_ = 0;                  // of progress()
  std::int64_t looked_ns_ = 0;
  bool says_goodbye_ = false;  // the peer, which has sent so many slots in all, modulo 2^16:
  std::uint16_t sent_there_ = 0;
  bool is_closing_ = false;
  Error failure_;
};

}  // namespace anello::transport
