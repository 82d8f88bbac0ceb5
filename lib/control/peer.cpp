#include "control/peer.h"

#include "base/text.h"
#include "transports/registry.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace anello::control {

std::string describe(const Member& member) {
  return text("rank ", member.rank, " (host ", member.host, ", pid ", member.pid, ")");
}

void put_address(Writer& writer, const Address& address) {
  writer.put_text(address.unix_name).put_text(address.ip).put(address.port);
}

Address take_address(Reader& reader) {
  Address address;
  address.unix_name = reader.take_text();
  address.ip = reader.take_text();
  address.port = reader.take<std::uint16_t>();
  if (address.unix_name.size() > 100 || address.ip.size() > 100) throw Reader::corrupt();
  return address;
}

void put_listening(Writer& writer, const Peer& peer) {
  put_address(writer, peer.tcp_address);
  writer.put(static_cast<std::uint8_t>(peer.rails.size()));
  for (const Address& rail : peer.rails) put_address(writer, rail);
}

void take_listening(Reader& reader, Peer& peer) {
  peer.tcp_address = take_address(reader);
  peer.rails.resize(reader.take_in<std::uint8_t>(0, kMostRails - 1));
  for (Address& rail : peer.rails) {
    rail = take_address(reader);
    if (rail.ip.empty() || rail.port == 0) throw Reader::corrupt();
  }
}

namespace {

void put_processors(Writer& writer, const Processors& processors) {
  const std::size_t count = std::min(processors.allowed().size(), Processors::kMaxWords);
  writer.put(processors.quota()).put(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i) writer.put(processors.allowed()[i]);
}

Processors take_processors(Reader& reader) {
  const int quota = reader.take_in(0, std::numeric_limits<int>::max());
  Processors::Words words(reader.take_in<std::uint16_t>(0, Processors::kMaxWords));
  for (std::uint64_t& word : words) word = reader.take<std::uint64_t>();
  return {std::move(words), quota};
}

}  // namespace

void put_peer(Writer& writer, const Peer& peer) {
  const Member& member = peer.member;
  writer.put(member.rank).put_text(std::string_view(member.host).substr(0, 255)).put(member.pid).put(member.process);
  writer.put(member.machine).put(member.local_index);
  put_processors(writer, member.processors);
  writer.put(peer.uid).put(peer.reach).put(peer.process_space).put(peer.transports).put(peer.leader);
  writer.put(static_cast<std::uint8_t>(peer.member.addresses.size()));
  for (const std::string& address : peer.member.addresses) writer.put_text(address);
  put_address(writer, peer.unix_address);
  put_listening(writer, peer);
}

Peer take_peer(Reader& reader) {
  constexpr int kMax = std::numeric_limits<int>::max();
  Peer peer;
  Member& member = peer.member;
  member.rank = reader.take_in(0, kMax);
  member.host = reader.take_text();
  member.pid = reader.take<std::int64_t>();
  member.process = reader.take<std::uint64_t>();
  member.machine = reader.take<std::uint64_t>();
  member.local_index = reader.take_in(-1, memory::kMaxLocalRanks - 1);
  member.processors = take_processors(reader);
  peer.uid = reader.take<std::uint32_t>();
  peer.reach = reader.take<std::uint64_t>();
  peer.process_space = reader.take<std::uint64_t>();
  peer.transports = reader.take<std::uint32_t>() & transport::all_transports();
  peer.leader = reader.take_in(-1, kMax);
  peer.member.addresses.resize(reader.take_in<std::uint8_t>(0, std::uint8_t(transport::registry().size())));
  for (std::string& address : peer.member.addresses) {
    address = reader.take_text();
    if (address.size() > transport::kMostAddressBytes) throw Reader::corrupt();
  }
  peer.unix_address = take_address(reader);
  take_listening(reader, peer);
  return peer;
}

void put_shared(Writer& writer, const Shared& shared) {
  writer.put_text(shared.algorithm).put(shared.chunk_bytes).put(shared.first_sequence).put(shared.silence_ms);
  writer.put<std::uint8_t>(shared.invariant ? 1 : 0);
  const TuningFile& tuning = shared.tuning;
  writer.put_text(tuning.path).put_long_text(tuning.text).put_text(tuning.machine).put_text(tuning.problem);
}

Shared take_shared(Reader& reader) {
  Shared shared;
  shared.algorithm = reader.take_text();
  shared.chunk_bytes = reader.take<std::int64_t>();
  shared.first_sequence = reader.take<std::int64_t>();
  shared.silence_ms = reader.take_in<std::int64_t>(0, kMostSilenceMs);
  shared.invariant = reader.take_in<std::uint8_t>(0, 1) != 0;
  shared.tuning.path = reader.take_text();
  shared.tuning.text = reader.take_long_text(TuningFile::kMostBytes);
  shared.tuning.machine = reader.take_text();
  shared.tuning.problem = reader.take_text();
  return shared;
}

void check_places(const std::vector<Peer>& peers, int rank, const Seats& seats) {
  const Member& self = peers[std::size_t(rank)].member;
  const auto wrong = [](const Member& member, const char* what) {
    return Error(ANELLO_ERR_CORRUPT,
                 text(describe(member), " says that it is ", what, "; its process has a memory fault or is not an ",
                      "Anello of this version"),
                 member.rank);
  };
  if (self.local_index >= seats.ranks || (self.local_index >= 0 && self.machine != seats.machine)) {
    throw wrong(self, "in shared memory that this process does not have");
  }
  if (self.local_index < 0) return;
  std::bitset<memory::kMaxLocalRanks> taken;
  for (const Peer& peer : peers) {
    const Member& member = peer.member;
    if (member.local_index < 0 || member.machine != self.machine) continue;
    const auto index = std::size_t(member.local_index);
    if (member.local_index >= seats.ranks || taken[index])
      throw wrong(member, "where no rank or another one is in its host's shared memory");
    taken.set(index);
    if (member.process == seats.process && !seats.here[index])
      throw wrong(member, "a thread of a process that does not have it");
  }
}

namespace {

transport::Place place_of(const Peer& peer, std::size_t row) {
  const Member& member = peer.member;
  return {member.process,
          peer.reach,
          peer.uid,
          member.machine,
          member.local_index >= 0,
          row < member.addresses.size() ? member.addresses[row] : std::string()};
}

}  // namespace

std::uint32_t transports_between(const Peer& a, const Peer& b) {
  const std::uint32_t both = a.transports & b.transports;
  std::uint32_t joining = 0;
  for (std::size_t row = 0; row < transport::registry().size(); ++row) {
    const transport::Row& each = transport::registry()[row];
    if ((both & each.bit()) != 0 && each.reaches(place_of(a, row), place_of(b, row))) joining |= each.bit();
  }
  return joining;
}

std::string why_no_transport(const Peer& a, const Peer& b) {
  std::string why =
      text(describe(a.member), " and ", describe(b.member), " have no transport in common: the first may use ",
           transport::transport_names(a.transports), ", the second ", transport::transport_names(b.transports));
  for (std::size_t row = 0; row < transport::registry().size(); ++row) {
    const transport::Row& each = transport::registry()[row];
    if ((a.transports & b.transports & each.bit()) == 0) continue;
    why += "; " + each.why_unreached(place_of(a, row), place_of(b, row));
  }
  return why + "; allow tcp (ANELLO_TRANSPORT)";
}

std::size_t rails_between(const Peer& a, const Peer& b) { return 1 + std::min(a.rails.size(), b.rails.size()); }

std::vector<Address> ways_to(const Peer& a, const Peer& b) {
  std::vector<Address> ways;
  if (a.reach == b.reach && b.unix_address) ways.push_back(b.unix_address);
  if (b.tcp_address) ways.push_back(b.tcp_address);
  return ways;
}

}  // namespace anello::control
