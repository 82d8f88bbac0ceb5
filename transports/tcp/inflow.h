#pragma once
// The receiving half of a socket. Small frames come several to a system call, through a staging buffer; large payloads
// go from the socket into the receiver's memory, or are looked at in the staging buffer, a part at a time. It has 256
// or 512 KiB (transport.cpp): 64 KiB have half the rate, for the system calls.
//
//   staging:  | consumed | begin_ .. end_: bytes of the stream, header or payload first | free |
//
// Payload that is looked at must lie aligned. Where a frame's does not it moves down by less than 16 bytes, over the
// header before it; frames behind it stay where they are, and skip_ is the gap.
//
// Of a sealed payload the last bytes stay in staging until its checksum is there and right, so that no frame becomes
// whole before. It is summed piece by piece, as it goes through the caches.
#include "transports/tcp/wire.h"

#include <memory>
#include <new>

namespace anello::transport {

class Inflow {
 public:
  Inflow(int fd, std::size_t staging_bytes, bool looks = true);

  // As Endpoint has them.
  const FrameHeader* incoming();
  std::size_t remaining() const { return current_ ? header_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes);
  std::span<const std::byte> view();
  void consume(std::size_t bytes);

  // A frame lies in staging that no call above has reported yet, or the end of the stream does.
  bool news() const;
  // Nothing more can be had: the stream has ended before what was asked for.
  bool over() const { return over_; }
  int error_number() const { return error_number_; }  // why it ended; 0: the peer closed it
  // Why nothing more is taken from it.
  enum class Corrupt { no, impossible, header, payload };
  Corrupt corrupt() const { return corrupt_; }
  const FrameHeader& frame() const { return header_; }  // the one that is, or was, under way
  std::uint64_t position() const { return position_; }  // of its first byte in the stream
  // Something is or may still come to be consumed here.
  bool has_more() const;

 private:
  std::byte* at(std::size_t offset) const { return staging_.get() + offset; }
  std::size_t staged() const { return end_ - begin_; }
  void make_front(std::size_t offset);
  void read_more(std::size_t bytes);
  bool ended(long result);
  void advance(std::size_t bytes);
  std::size_t seal_bytes() const { return sealed_ ? kSealBytes : 0; }
  void sum(const std::byte* from, std::size_t bytes);
  bool is_right();
  std::size_t usable();

  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };

  int fd_;
  bool looks_;  // at checksums
  std::size_t staging_bytes_;
  std::unique_ptr<std::byte[], Free> staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t skip_ = 0;
  FrameHeader header_;
  std::size_t consumed_ = 0;
  std::size_t summed_ = 0;      // of its payload, at least what was consumed of it
  std::uint32_t checksum_ = 0;  // of the header and as much
  std::uint64_t position_ = 0;
  std::uint64_t next_position_ = 0;
  bool sealed_ = false;   // a checksum follows its payload
  bool checked_ = false;  // and is there, and right
  bool current_ = false;
  bool drained_ = false;  // the last read took all there was: the first look for a frame after it need not read
  bool ended_ = false;    // the socket will give nothing more
  bool over_ = false;
  Corrupt corrupt_ = Corrupt::no;
  int error_number_ = 0;
};

}  // namespace anello::transport
