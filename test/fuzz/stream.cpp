// What comes over a lane's socket, in pieces of any size. The first byte says how it is looked at; of what follows,
// frames whose checksums a fuzzer would never find are put in their places, so that it comes behind them.
#include "base/error.h"
#include "fuzz/input.h"
#include "transports/tcp/endpoint.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/socket.h>

using namespace anello;
using namespace anello::transport;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  static std::vector<std::byte>& into = *new std::vector<std::byte>(kMaxFrameBytes);
  fuzz::Input input(bytes, count);
  const int habits = input.take<std::uint8_t>();
  const bool looks = habits % 2 != 0, mends = habits / 2 % 2 != 0, views = habits / 4 % 2 != 0;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  const UniqueFd far(ends[1]);
  TcpEndpoint end(1, UniqueFd(ends[0]), 4096, Checks{false, looks});
  std::uint64_t came = 0;
  const auto look = [&] {
    for (int i = 0; i < 100 && end.failure() == nullptr; ++i) {
      const FrameHeader* const header = end.incoming();
      if (header == nullptr) return;
      if (header->bytes > kMaxFrameBytes || end.remaining() > header->bytes) std::abort();
      const std::size_t before = end.remaining();
      if (views) {
        const auto view = end.view();
        if (view.size() > before || (!view.empty() && view.size() < std::min<std::size_t>(16, before))) std::abort();
        if (!view.empty()) std::memcpy(into.data(), view.data(), view.size());
        end.consume(view.size());
      } else if (end.receive(into.data(), before) > before) {
        std::abort();
      }
      if (end.remaining() > before) std::abort();
      came += before - end.remaining();
      if (before != 0 && end.remaining() == before) return;
    }
  };
  std::uint64_t sent = 0;
  while (!input.done() && end.failure() == nullptr) {
    if (mends && input.below(2) == 0) {
      WireHeader header;
      header.frame.bytes = std::uint32_t(input.below(6000));
      header.frame.kind = input.take<std::uint16_t>();
      header.sealed = std::uint32_t(input.below(2));
      header.checksum = header.right_checksum();
      sent += sizeof header;
      if (::send(far.get(), &header, sizeof header, MSG_NOSIGNAL) < 0) std::abort();
    }
    const auto part = input.take_bytes(std::size_t(input.below(700)));
    sent += part.size();
    if (!part.empty() && ::send(far.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) std::abort();
    look();
  }
  if (came > sent) std::abort();
  ::shutdown(far.get(), SHUT_WR);
  look();
  return 0;
}
