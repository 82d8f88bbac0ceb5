// Bodies of frames: what goes in comes out, and what cannot be is refused before anything is allocated for it.
#include "control/peer.h"
#include "control/wire.h"
#include "support/catch.h"
#include "transports/registry.h"

#include <random>

using namespace anello;
using namespace anello::control;

namespace {

Peer some_peer() {
  Peer peer;
  peer.member = {3, "alpha", 4711, 0x1122334455667788, 99, 3, Processors({5, 1}, 2), 0};
  peer.uid = 1000;
  peer.reach = 5;
  peer.process_space = 6;
  peer.transports = transport::bit_of("shm") | transport::bit_of("tcp");
  peer.leader = 1;
  peer.member.addresses = {"", std::string("\0\x01", 2)};
  peer.unix_address = {"anello-x", "", 0};
  peer.tcp_address = {"", "fe80::1%eth0", 65535};
  peer.rails = {{"", "10.2.0.3", 4711}, {"", "fd00::3", 1}};
  return peer;
}

}  // namespace

TEST_CASE("a peer travels as it is") {
  Writer writer;
  put_peer(writer, some_peer());
  const Frame frame = writer.frame(3);
  Reader reader(frame.body);
  const Peer peer = take_peer(reader);
  reader.end();
  CHECK(describe(peer.member) == "rank 3 (host alpha, pid 4711)");
  CHECK(peer.member.process == 0x1122334455667788);
  CHECK(peer.member.processors.allowed() == Processors::Words{5, 1});
  CHECK(peer.member.processors.quota() == 2);
  CHECK(peer.unix_address == Address{"anello-x", "", 0});
  CHECK(peer.tcp_address == Address{"", "fe80::1%eth0", 65535});
  CHECK(peer.rails == some_peer().rails);
  CHECK(peer.member.addresses == some_peer().member.addresses);
  CHECK((peer.leader == 1 && peer.transports == (transport::bit_of("shm") | transport::bit_of("tcp")) &&
         peer.uid == 1000 && peer.reach == 5 && peer.process_space == 6));
}

TEST_CASE("a peer with too many rails, or one without an address, is refused") {
  const auto taken = [](std::vector<Address> rails) {
    Peer peer = some_peer();
    peer.rails = std::move(rails);
    Writer writer;
    put_peer(writer, peer);
    const Frame frame = writer.frame(3);
    Reader reader(frame.body);
    return take_peer(reader).rails.size();
  };
  const Address rail{"", "10.2.0.3", 4711};
  CHECK(taken(std::vector<Address>(kMostRails - 1, rail)) == kMostRails - 1);
  CHECK_THROWS_AS(taken(std::vector<Address>(kMostRails, rail)), Error);
  CHECK_THROWS_AS(taken({rail, {"", "10.2.0.3", 0}}), Error);
  CHECK_THROWS_AS(taken({{"anello-x", "", 1}}), Error);
}

TEST_CASE("a peer with more or longer addresses than transports give out is refused") {
  Peer many = some_peer(), longest = some_peer(), longer = some_peer();
  many.member.addresses.resize(transport::registry().size() + 1);
  longest.member.addresses = {std::string(transport::kMostAddressBytes, 'x')};
  longer.member.addresses = {std::string(transport::kMostAddressBytes + 1, 'x')};
  const auto taken = [](const Peer& peer) {
    Writer writer;
    put_peer(writer, peer);
    const Frame frame = writer.frame(3);
    Reader reader(frame.body);
    return take_peer(reader);
  };
  CHECK_THROWS_AS(taken(many), Error);
  CHECK_THROWS_AS(taken(longer), Error);
  CHECK(taken(longest).member.addresses == longest.member.addresses);
}

TEST_CASE("a body that is cut anywhere is refused, and so is one that is too long") {
  Writer writer;
  put_peer(writer, some_peer());
  const Frame frame = writer.frame(3);
  for (std::size_t length = 0; length < frame.body.size(); ++length) {
    Reader reader(std::string_view(frame.body).substr(0, length));
    CHECK_THROWS_AS(take_peer(reader), Error);
  }
  Reader reader(frame.body);
  take_peer(reader);
  CHECK_NOTHROW(reader.end());
  const std::string longer = frame.body + "x";
  Reader more(longer);
  take_peer(more);
  CHECK_THROWS_AS(more.end(), Error);
}

TEST_CASE("rank 0's settings travel with a table of the greatest length, and no longer one is taken") {
  Shared shared{"ring", 4096, 7,
                2500,   true, {"/the/table", std::string(TuningFile::kMostBytes, 't'), "a machine", "none"}};
  Writer writer;
  put_shared(writer, shared);
  const Frame frame = writer.frame(1);
  CHECK(frame.body.size() < kMaxBody);
  Reader reader(frame.body);
  const Shared taken = take_shared(reader);
  reader.end();
  CHECK((taken.algorithm == "ring" && taken.chunk_bytes == 4096 && taken.first_sequence == 7 &&
         taken.silence_ms == 2500 && taken.invariant));
  CHECK((taken.tuning.path == "/the/table" && taken.tuning.machine == "a machine" && taken.tuning.problem == "none"));
  CHECK(taken.tuning.text == shared.tuning.text);
  shared.tuning.text += "t";
  Writer longer;
  put_shared(longer, shared);
  const Frame refused = longer.frame(1);
  Reader of_refused(refused.body);
  CHECK_THROWS_AS(take_shared(of_refused), Error);
}

TEST_CASE("random and damaged bodies are read or refused, never more") {
  std::mt19937 random(1);
  Writer writer;
  put_peer(writer, some_peer());
  const std::string good = writer.frame(3).body;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string body = good;
    for (int flips = 1 + static_cast<int>(random() % 8); flips > 0; --flips) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    Reader reader(body);
    try {
      const Peer peer = take_peer(reader);
      CHECK((peer.member.rank >= 0 && peer.member.local_index < memory::kMaxLocalRanks &&
             peer.member.processors.count() >= 1));
    } catch (const Error& error) {
      CHECK(error.code() == ANELLO_ERR_CORRUPT);
      ++refused;
    }
  }
  CHECK(refused > 1'000);
}

TEST_CASE("an error travels with its code, peer and text; a text beyond the bound is cut") {
  Writer writer;
  put_error(writer, Error(ANELLO_ERR_PEER_LOST, std::string(10'000, 'x'), 7));
  const Frame frame = writer.frame(1);
  Reader reader(frame.body);
  const Error error = take_error(reader);
  CHECK((error.code() == ANELLO_ERR_PEER_LOST && error.peer() == 7 && error.text().size() == kMaxText));
  for (const std::int32_t code : {0, -1, 18, 1'000'000}) {
    Writer bad;
    bad.put(code).put<std::int32_t>(0).put_text("x");
    const Frame wrong = bad.frame(1);
    Reader read(wrong.body);
    CHECK_THROWS_AS(take_error(read), Error);
  }
}

namespace {

std::uint32_t best_between(const Peer& a, const Peer& b) {
  Member member;
  member.transports = transports_between(a, b);
  return member.transport();
}

}  // namespace

TEST_CASE("the transport of a pair is the best that both may use and that works between them") {
  Peer a = some_peer(), b = some_peer();
  a.transports = b.transports = transport::bit_of("inproc") | transport::bit_of("shm") | transport::bit_of("tcp");
  CHECK(best_between(a, b) == transport::bit_of("inproc"));
  b.member.process = 1;
  CHECK(best_between(a, b) == transport::bit_of("shm"));
  b.member.machine = 1;
  CHECK(best_between(a, b) == transport::bit_of("tcp"));
  b.member.machine = a.member.machine;
  b.member.local_index = -1;
  CHECK(best_between(a, b) == transport::bit_of("tcp"));
  b.transports = transport::bit_of("shm");
  CHECK(best_between(a, b) == 0);
  CHECK(why_no_transport(a, b).find("mapping the memory that shm shares did not work") != std::string::npos);
  b.reach = 6;
  CHECK(why_no_transport(a, b).find("one host") != std::string::npos);
}
