#include "transports/tcp/endpoint.h"

#include "base/text.h"

#include <cstring>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace anello::transport {

TcpEndpoint::TcpEndpoint(int peer, UniqueFd fd, std::size_t staging_bytes, Checks checks)
    : peer_(peer),
      fd_(std::move(fd)),
      out_(fd_.get(), checks.seals),
      in_(fd_.get(), staging_bytes, checks.looks),
      spare_(std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes)) {}

TcpEndpoint::~TcpEndpoint() {
  if (in_forked_child()) return;
  // Closing with unread bytes resets the connection, and bytes that this rank has sent might not arrive. So it first
  // announces the end, and then reads bytes that have arrived for operations that no longer exist, up to a limit.
  ::shutdown(fd_.get(), SHUT_WR);
  for (int i = 0; i < 64 && ::recv(fd_.get(), spare_.get(), kMaxFrameBytes, MSG_DONTWAIT) > 0; ++i) {
  }
}

bool TcpEndpoint::send(const FrameHeader& header, const std::byte* payload) {
  if (failure_) return false;
  if (held_ && !flush()) return false;
  if (out_.write(header, payload)) return true;
  header_ = header;
  payload_ = payload;
  check_out();
  return false;
}

void TcpEndpoint::detach() {
  if (!mid_frame()) out_.forget();
  if (!mid_frame() || failure_) return;
  const std::size_t gone = out_.payload_sent();
  if (gone < header_.bytes) std::memcpy(spare_.get() + gone, payload_ + gone, header_.bytes - gone);
  payload_ = spare_.get();
  held_ = true;
}

bool TcpEndpoint::flush() {
  if (!held_) return true;
  if (failure_) return false;
  if (out_.write(header_, payload_)) held_ = false;
  check_out();
  return !held_;
}

// If a socket is closed while the peer still sends (to return credit), it is reset, and bytes that the peer's system
// has not acknowledged are lost.
std::size_t TcpEndpoint::on_the_way() {
  tcp_info info{};
  socklen_t size = sizeof info;
  int bytes = 0;
  if (failure_ || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == TCP_CLOSE ||
      ::ioctl(fd_.get(), SIOCOUTQ, &bytes) != 0) {
    return 0;
  }
  return static_cast<std::size_t>(bytes);
}

// A connection that takes no more bytes may still have some to deliver, which come first.
void TcpEndpoint::check_out() {
  if (out_.broken() != 0 && in_.remaining() == 0 && !in_.has_more()) lose(out_.broken());
}

void TcpEndpoint::check_in() {
  constexpr const char* kHint = "; the network, or the memory of a machine on the way, changes bytes";
  const FrameHeader& frame = in_.frame();
  switch (in_.corrupt()) {
    case Inflow::Corrupt::no:
      if (in_.over()) lose(in_.error_number());
      return;
    case Inflow::Corrupt::impossible:
      failure_ =
          Error(ANELLO_ERR_CORRUPT,
                text("rank ", peer_, " sent a frame larger than any can be; its process has a memory fault or is ",
                     "not an Anello of this version"),
                peer_);
      return;
    case Inflow::Corrupt::header:
      failure_ = Error(ANELLO_ERR_CORRUPT,
                       text("data from rank ", peer_, " was changed on the way: a frame's header at byte ",
                            in_.position(), " of the connection does not have its checksum (it says ", frame.bytes,
                            " bytes for communicator ", frame.communicator, ", operation ", frame.sequence, ")", kHint),
                       peer_);
      return;
    case Inflow::Corrupt::payload:
      failure_ = Error(ANELLO_ERR_CORRUPT,
                       text("data from rank ", peer_, " was changed on the way: ", frame.bytes, " bytes at byte ",
                            in_.position() + sizeof(WireHeader), " of the connection, for communicator ",
                            frame.communicator, ", operation ", frame.sequence, ", do not have their checksum", kHint),
                       peer_);
      return;
  }
}

void TcpEndpoint::lose(int error_number) {
  if (error_number != 0) trouble_ = system_text("connection", error_number);
  const std::string cause = trouble_.empty() ? "it closed the connection" : trouble_;
  failure_ = Error(ANELLO_ERR_PEER_LOST, text("rank ", peer_, " is lost: ", cause), peer_);
}

const FrameHeader* TcpEndpoint::incoming() {
  if (failure_) return nullptr;
  const FrameHeader* header = in_.incoming();
  if (header == nullptr) check_in();
  return header;
}

std::size_t TcpEndpoint::receive(std::byte* into, std::size_t bytes) {
  if (failure_) return 0;
  const std::size_t done = in_.receive(into, bytes);
  if (done == 0) check_in();
  return done;
}

std::span<const std::byte> TcpEndpoint::view() {
  if (failure_) return {};
  const std::span<const std::byte> here = in_.view();
  if (here.empty()) check_in();
  return here;
}

void TcpEndpoint::consume(std::size_t bytes) {
  if (!failure_) in_.consume(bytes);
}

}  // namespace anello::transport
