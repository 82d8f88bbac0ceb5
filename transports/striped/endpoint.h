#pragma once
// A lane over several others, its rails: a long frame goes over all of them at once, in pieces.
//
//   frame of 200 KiB    piece 0 | piece 1 | piece 2 | piece 3 (8 KiB)
//   rail 0              piece 0,  piece 2                    its header is the frame's, but for the bytes
//   rail 1              piece 1,  piece 3                    its header: bytes, the piece's number, the frame's bytes
//
// Rail 0 carries the first piece of every frame, so frames keep their order. A frame has a second piece if its first
// one is full; that goes over rail 1, so that the receiver finds the frame's length there. Each further piece goes over
// a rail that has room, in turn, so a slow rail carries less. Pieces are numbered through all frames.
#include "transports/striped/readiness.h"
#include "transports/transport.h"

#include <memory>
#include <string>
#include <vector>

namespace anello::transport {

// Small enough that a receiver's system holds a piece of each rail while it consumes another, large enough that system
// calls cost little. A multiple of the alignment of views.
inline constexpr std::size_t kPieceBytes = 64 * 1024;

struct Rail {
  std::unique_ptr<Endpoint> end;  // has a descriptor
  std::string name;               // for people
};

class StripedEndpoint final : public Endpoint {
 public:
  // At least two rails to the peer, in the same order at both ends. Throws Error, std::bad_alloc.
  StripedEndpoint(int peer, std::vector<Rail> rails);

  bool send(const FrameHeader& header, const std::byte* payload) override;
  bool mid_frame() const override { return !held_ && taken_; }
  std::size_t frame_bytes() const override { return kMaxFrameBytes; }
  void detach() override;
  bool flush() override;
  std::size_t on_the_way() override;

  const FrameHeader* incoming() override;
  std::size_t remaining() const override { return arriving_ ? header_in_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes) override;
  std::span<const std::byte> view() override;
  void consume(std::size_t bytes) override;

  const Error* failure() const override { return failure_ ? &failure_ : nullptr; }
  std::string trouble() const override { return trouble_; }
  int descriptor() const override { return readiness_.descriptor(); }
  bool before_sleep() override;

 private:
  struct Track {
    std::unique_ptr<Endpoint> end;
    std::string name;
    bool offered = false;                // it has not taken all of a piece
    bool keeps = false;                  // it holds the rest of that piece itself
    FrameHeader header;                  // of that piece
    std::size_t offset = 0;              // of that piece in the frame
    const FrameHeader* front = nullptr;  // of the piece that arrives there next, once known
  };

  void begin(const FrameHeader& header, const std::byte* payload);
  bool go_on();
  bool deal(std::size_t rail);
  bool offer(Track& track);

  const FrameHeader* front_of(Track& track);
  Track* source();
  void advance(std::size_t bytes);
  void end_frame();
  bool helps(const Track& track) const;
  bool check();
  void fail_as_corrupt();

  const int peer_;
  std::vector<Track> tracks_;
  Readiness readiness_;
  Error failure_;
  std::string trouble_;

  // The frame under way.
  FrameHeader header_out_;
  const std::byte* payload_ = nullptr;
  bool sending_ = false;
  bool taken_ = false;                  // some of it has gone
  bool held_ = false;                   // the rest of its payload is in spare_
  std::size_t dealt_ = 0;               // its pieces that rails have been offered
  std::uint32_t number_out_ = 0;        // of the next piece
  std::unique_ptr<std::byte[]> spare_;  // made early, because the data path cannot fail

  // The arriving frame.
  FrameHeader header_in_;
  bool arriving_ = false;
  std::size_t consumed_ = 0;
  std::uint32_t number_in_ = 0;  // of the piece that is consumed next
  Track* source_ = nullptr;      // brings that piece; null: not known
  std::size_t piece_left_ = 0;
};

}  // namespace anello::transport
