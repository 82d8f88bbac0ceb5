#include "bootstrap/rendezvous.h"

#include "base/config.h"
#include "base/log.h"
#include "base/text.h"
#include "bootstrap/rendezvous_wire.h"
#include "control/interfaces.h"

#include <algorithm>
#include <cstring>

namespace anello::bootstrap {
namespace {

using namespace control;

// The time for the meeting place's answer after the deadline: it knows which ranks are missing.
constexpr std::int64_t kLastWordMs = 3'000;

}  // namespace

Task<> Rendezvous::run(std::shared_ptr<Rendezvous> self) {
  Call call;
  call.addresses = self->meeting_.reach;
  call.credentials = {self->meeting_.job,  self->meeting_.key,      self->meeting_.same_user,
                      Purpose::rendezvous, self->self_.member.rank, -1,
                      kWireVersion};
  call.deadline = self->deadline_;
  call.must_exist = self->meeting_.must_exist;
  const std::shared_ptr<const EndedRanks> ended = self->meeting_.ended;
  call.wanted = [ended, wanted = self->meeting_.wanted] { return (!ended || !ended->has(0)) && (!wanted || wanted()); };
  std::shared_ptr<Stream> stream;
  try {
    stream = co_await dial(self->agent_->service().io(), std::move(call));
  } catch (const Unknown&) {
    throw;
  } catch (const Error& error) {
    if (ended && ended->has(0)) {
      throw Error(ANELLO_ERR_RENDEZVOUS,
                  text("rank 0 has ended without opening the meeting place ", self->meeting_.place));
    }
    if (error.code() != ANELLO_ERR_RENDEZVOUS) throw;
    throw Error(ANELLO_ERR_RENDEZVOUS, text("rank 0 was not reached at the meeting place ", self->meeting_.place,
                                            " within ", self->agent_->timeout_ms(), " ms (", error.text(), ")",
                                            self->meeting_.hint.empty() ? "" : "; ", self->meeting_.hint));
  }
  self->link_ = std::make_shared<Link>(self->agent_->service(), std::move(stream));
  const TimeLimit limit(self->link_->stream(), self->deadline_.left_ms() + kLastWordMs);
  Error failure;
  try {
    self->hello();
    co_await follow(self);
  } catch (const Error& error) {
    failure = error;
  }
  if (failure) {
    self->give_up(failure);
    co_await Link::flushed(self->link_, 200);
  }
  self->link_->close();
  if (failure) throw failure;
}

void Rendezvous::hello() {
  Writer writer;
  writer.put(agent_->size()).put<std::int64_t>(deadline_.left_ms()).put<std::int64_t>(agent_->timeout_ms());
  put_peer(writer, self_);
  put_shared(writer, shared_);
  link_->send(writer.frame(kHello));
}

Task<> Rendezvous::follow(std::shared_ptr<Rendezvous> self) {
  for (;;) {
    Frame frame;
    try {
      frame = co_await self->link_->receive();
    } catch (const Error& error) {
      if (error.code() == ANELLO_ERR_CORRUPT) throw;
      throw Error(ANELLO_ERR_RENDEZVOUS,
                  self->deadline_.passed()
                      ? text("not all ranks came within ", self->agent_->timeout_ms(), " ms")
                      : text("the process that hosts the meeting place ", self->meeting_.place, " ended or left"));
    }
    Reader reader(frame.body);
    Service& service = self->agent_->service();
    switch (frame.kind) {
      case kRefuse: throw take_error(reader);
      case kPeers: self->take_peers(reader); break;
      case kSession:
        self->take_session(reader);
        if (self->self_.leader >= 0 && !self->leader_) service.spawn("arena", join_arena(self));
        break;
      case kForm: {
        std::vector<int> ranks = take_form(reader, self->agent_->size());
        if (!self->leader_ || ranks.front() != self->self_.member.rank) throw Reader::corrupt();
        service.spawn("arena", form_arena(self, std::move(ranks)));
        break;
      }
      case kListen: self->listen(); break;
      case kFinal:
        if (self->known_.empty()) throw Reader::corrupt();
        self->agent_->heartbeat().set_limit(self->shared_.silence_ms);
        if (const int told = self->self_.member.local_index; told >= 0 && told != self->seat_.index)
          throw Reader::corrupt();
        self->agent_->settle(self->known_, self->seat_.group, self->tcp_, std::move(self->rails_));
        service.spawn("control link", climb(self));
        break;
      case kGo: co_return;
      default: throw Reader::corrupt();
    }
  }
}

void Rendezvous::take_peers(Reader& reader) {
  bootstrap::take_peers(reader, agent_->size(), peers_);
  if (static_cast<int>(peers_.size()) < agent_->size()) return;
  known_ = std::exchange(peers_, {});
  const std::string own = tcp_ ? tcp_->address().ip : std::string();
  for (Peer& peer : known_) peer.tcp_address.ip = with_scope_of(peer.tcp_address.ip, own);
  self_ = known_[static_cast<std::size_t>(agent_->rank())];
}

void Rendezvous::take_session(Reader& reader) {
  if (known_.empty()) throw Reader::corrupt();
  Session said = bootstrap::take_session(reader);
  shared_ = std::move(said.shared);
  // Derived from the meeting's key, so that an eavesdropper on the network cannot know it, and from fresh bytes, so
  // that it is secret even if there was only the uid.
  const Key session = derive(meeting_.key, "anello session", said.random);
  const Key name = derive(session, "anello session job", {});
  JobId job;
  std::memcpy(job.data(), name.bytes().data(), job.size());
  if (self_.leader == self_.member.rank) {
    leader_ = std::make_shared<GatheringLeader>(agent_->service());
    agent_->on_arena = [leader = leader_](Visitor visitor) { leader->enter(std::move(visitor)); };
  }
  agent_->open_room(job, session);
  if (leader_) report_arrived(true, "");
}

Task<> Rendezvous::join_arena(std::shared_ptr<Rendezvous> self) {
  std::shared_ptr<Stream> stream;
  std::string why;
  const int leader = self->self_.leader;
  const Address address = self->known_[static_cast<std::size_t>(leader)].unix_address;
  try {
    // Half of the time: if it cannot be reached, there must be time to set up tcp.
    const Deadline half = Deadline::in_ms(self->deadline_.left_ms() / 2);
    stream = co_await arrive(self->agent_, leader, address, self->self_.member.process, half);
  } catch (const Error& error) {
    why = text("rank ", leader, " cannot be reached: ", error.text());
  }
  self->report_arrived(stream != nullptr, why);
  if (!stream) co_return;
  try {
    self->seat_ = co_await take_seat(stream, self->deadline_);
  } catch (const Error& error) {
    why = error.text();
  }
  self->report_mapped(self->seat_, why);
}

Task<> Rendezvous::form_arena(std::shared_ptr<Rendezvous> self, std::vector<int> ranks) {
  std::string why;
  try {
    const std::uint64_t process = self->self_.member.process;
    self->seat_ =
        co_await GatheringLeader::form(self->leader_, self->agent_, std::move(ranks), process, self->deadline_);
  } catch (const Error& error) {
    // These ranks can still use tcp, if they are allowed to.
    why = error.text();
    log::warn(self->self_.member.rank, "the ranks of this host share no memory, and use tcp if they may: ", why);
    self->agent_->on_arena = nullptr;
    self->leader_.reset();  // closes the others' connections, so that they also report an error
  }
  self->report_mapped(self->seat_, why);
}

Task<> Rendezvous::climb(std::shared_ptr<Rendezvous> self) {
  try {
    co_await ControlTree::climb(self->agent_, self->deadline_);
    self->link_->send(Frame{kReady, {}});
  } catch (const Error& error) {
    self->give_up(Error(error.code(), "no control connection to rank 0: " + error.text()));
  }
}

void Rendezvous::report_arrived(bool ok, const std::string& why) {
  link_->send(Writer().put<std::uint8_t>(ok ? 1 : 0).put_text(why).frame(kArrived));
}

void Rendezvous::report_mapped(const ArenaSeat& seat, const std::string& why) {
  Writer writer;
  writer.put<std::uint8_t>(seat.group ? 1 : 0).put(seat.group ? seat.group->nonce() : 0).put(seat.index).put_text(why);
  link_->send(writer.frame(kMapped));
}

void Rendezvous::give_up(const Error& error) {
  Writer writer;
  put_error(writer, error);
  link_->send(writer.frame(kGiveUp));
}

// Listens only on the address that leads to the meeting place.
void Rendezvous::listen() {
  Door& door = agent_->service().door();
  const bool one_host =
      std::all_of(known_.begin(), known_.end(), [&](const Peer& p) { return p.reach == self_.reach; });
  if (!interface_.empty()) {
    tcp_ = door.listen({"", address_of_interface(interface_, peer_address(link_->stream()->descriptor()).ip), 0});
  } else if (one_host) {
    try {
      tcp_ = door.listen({"", "127.0.0.1", 0});
    } catch (const Error&) {
      tcp_ = door.listen({"", "::1", 0});  // a host without IPv4
    }
  } else {
    std::string ip = local_address(link_->stream()->descriptor()).ip;
    // The ranks met over a Unix socket: then the meeting place is on this host, and its address for the others is this
    // host's, unless others know it by an address that is translated.
    std::vector<Address> places = meeting_.reach;
    places.insert(places.end(), meeting_.listen.begin(), meeting_.listen.end());
    for (const Address& place : places) {
      if (ip.empty() && !place.ip.empty() && is_local(place.ip)) ip = place.ip;
    }
    for (const Address& place : places) {
      if (ip.empty() && !place.ip.empty()) ip = address_towards(place.ip);
    }
    if (ip.empty()) {
      throw Error(ANELLO_ERR_ADDRESS,
                  "ranks are on several hosts, and it is unknown which address of this host they "
                  "reach; set ANELLO_INTERFACE");
    }
    tcp_ = door.listen({"", ip, 0});
  }
  if (!tcp_) throw Error(ANELLO_ERR_ADDRESS, "no free port to listen on");
  self_.tcp_address = tcp_->address();
  if (const std::string& other = Config::get().advertise; !one_host && !other.empty()) self_.tcp_address.ip = other;
  self_.rails.clear();
  if (const std::string& filter = Config::get().interfaces; !filter.empty()) {
    const auto earlier = [&](const Peer& p) { return p.reach == self_.reach && p.member.rank < self_.member.rank; };
    const std::string idle = words_without_interface(filter);
    // One of the ranks of this host says it.
    if (!idle.empty() && std::none_of(known_.begin(), known_.end(), earlier)) log::warn(self_.member.rank, idle);
    for (const std::string& ip : addresses_beside(tcp_->address().ip, filter, kMostRails - 1)) {
      std::shared_ptr<Listener> rail = door.listen({"", ip, 0});
      if (!rail) throw Error(ANELLO_ERR_ADDRESS, text("no free port to listen on at ", ip));
      self_.rails.push_back(rail->address());
      rails_.push_back(std::move(rail));
    }
  }
  Writer writer;
  put_listening(writer, self_);
  link_->send(writer.frame(kListening));
}

}  // namespace anello::bootstrap
