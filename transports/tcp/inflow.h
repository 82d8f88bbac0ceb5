#pragma once
// The receiving half of a socket. One system call reads several small frames into a staging buffer. Large payloads go
// from the socket into the receiver's memory, or are viewed in the staging buffer, a part at a time. The buffer has 256
// or 512 KiB (transport.cpp): with 64 KiB the system calls would halve the rate.
//
//   staging:  | consumed | begin_ .. end_: bytes of the stream, header or payload first | free |
//
// A viewed payload must be aligned. One that is not moves down by less than 16 bytes, over the header before it; frames
// behind it stay in place, and skip_ is the gap.
//
// The last bytes of a sealed payload stay in staging until its checksum has arrived and is right, so the frame does not
// become whole before. The payload is summed piece by piece, while each piece is in the caches.
#include "transports/tcp/wire.h"

#include <memory>
#include <new>

namespace anello::transport {

class Inflow {
 public:
  Inflow(int fd, std::size_t staging_bytes, bool looks = true);

  // As in Endpoint.
  const FrameHeader* incoming();
  std::size_t remaining() const { return current_ ? header_.bytes - consumed_ : 0; }
  std::size_t receive(std::byte* into, std::size_t bytes);
  std::span<const std::byte> view();
  void consume(std::size_t bytes);

  // Whether there is a frame in staging, or the end of the stream, that no call above has reported yet.
  bool news() const;
  // Whether the stream has ended before the bytes that the last call wanted.
  bool over() const { return over_; }
  int error_number() const { return error_number_; }  // why it ended; 0 if the peer closed it
  // Why nothing more is read from the stream.
  enum class Corrupt { no, impossible, header, payload };
  Corrupt corrupt() const { return corrupt_; }
  const FrameHeader& frame() const { return header_; }  // the current frame, or the last one
  std::uint64_t position() const { return position_; }  // of its first byte in the stream
  // Whether there are bytes to consume, in staging or in the socket.
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
  bool looks_;  // checks checksums
  std::size_t staging_bytes_;
  std::unique_ptr<std::byte[], Free> staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t skip_ = 0;
  FrameHeader header_;
  std::size_t consumed_ = 0;
  std::size_t summed_ = 0;      // bytes of its payload, at least those consumed
  std::uint32_t checksum_ = 0;  // of the header and these bytes
  std::uint64_t position_ = 0;
  std::uint64_t next_position_ = 0;
  bool sealed_ = false;   // a checksum follows its payload
  bool checked_ = false;  // the checksum has arrived and is right, or there is none
  bool current_ = false;
  bool drained_ = false;  // the last read emptied the socket: the first look for a frame after it need not read
  bool ended_ = false;    // the socket delivers nothing more
  bool over_ = false;
  Corrupt corrupt_ = Corrupt::no;
  int error_number_ = 0;
};

}  // namespace anello::transport
