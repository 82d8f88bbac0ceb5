#include "bootstrap/rendezvous_wire.h"

#include "memory/arena.h"

namespace anello::bootstrap {

using namespace control;

Hello take_hello(Reader& reader) {
  constexpr std::int64_t kMostMs = std::int64_t{1000} * 60 * 60 * 24 * 30;
  Hello hello;
  hello.size = reader.take_in(1, 1 << 20);
  hello.left_ms = reader.take_in<std::int64_t>(0, kMostMs);
  hello.allowed_ms = reader.take_in<std::int64_t>(1, kMostMs);
  hello.peer = take_peer(reader);
  hello.shared = take_shared(reader);
  reader.end();
  if (hello.peer.member.rank >= hello.size) throw Reader::corrupt();
  return hello;
}

void take_peers(Reader& reader, int size, std::vector<Peer>& peers) {
  const auto count = reader.take_in<std::uint32_t>(1, static_cast<std::uint32_t>(size));
  if (count > static_cast<std::size_t>(size) - peers.size()) throw Reader::corrupt();
  for (std::uint32_t i = 0; i < count; ++i) {
    Peer peer = take_peer(reader);
    if (peer.member.rank != static_cast<int>(peers.size()) || peer.leader >= size) throw Reader::corrupt();
    peers.push_back(std::move(peer));
  }
  reader.end();
}

Session take_session(Reader& reader) {
  Session session;
  reader.take_bytes(session.random);
  session.shared = take_shared(reader);
  reader.end();
  return session;
}

std::vector<int> take_form(Reader& reader, int size) {
  std::vector<int> ranks(reader.take_in<std::uint32_t>(2, memory::kMaxLocalRanks));
  for (int& rank : ranks) rank = reader.take_in(0, size - 1);
  return ranks;
}

Done take_done(Reader& reader) {
  const bool ok = reader.take_in<std::uint8_t>(0, 1) != 0;
  return {ok, reader.take_text()};
}

Mapped take_mapped(Reader& reader) {
  Mapped mapped;
  mapped.done.ok = reader.take_in<std::uint8_t>(0, 1) != 0;
  mapped.machine = reader.take<std::uint64_t>();
  mapped.index = reader.take_in(-1, memory::kMaxLocalRanks - 1);
  mapped.done.why_not = reader.take_text();
  return mapped;
}

}  // namespace anello::bootstrap
