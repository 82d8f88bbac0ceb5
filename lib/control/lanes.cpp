#include "control/lanes.h"

#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"
#include "transports/registry.h"

#include <algorithm>

namespace anello::control {
namespace {

// The listener's answer to a lane, and the dialler's to that.
constexpr std::byte kTaken{'y'}, kComing{'n'}, kConfirmed{'k'};
constexpr std::int64_t kAnswerMs = 10'000;
// For all further rails of a lane, while the listener waits for the dialler's confirmation.
constexpr std::int64_t kRailsMs = 8'000;

}  // namespace

void Lanes::request(int peer) {
  if (peer < 0 || peer >= agent_.size() || peer == agent_.rank()) return;
  Lane& lane = lanes_[peer];
  if (lane.done || lane.wanted) return;
  lane.wanted = true;
  if (agent_.here(peer)) {
    if (!lane.incoming) start(peer);
    return;
  }
  Event event;
  event.kind = Event::Kind::lost;
  event.peer = peer;
  event.error =
      Error(ANELLO_ERR_PEER_LOST, text(describe(agent_.peer(peer).member), " is gone: no connection to it"), peer);
  agent_.mailbox().put(std::move(event));
}

void Lanes::start(int peer) {
  lanes_[peer].dialling = true;
  agent_.service().spawn("lane", reach(agent_.shared_from_this(), peer));
}

Task<> Lanes::reach(std::shared_ptr<Agent> agent, int peer) {
  const Peer& other = agent->peer(peer);
  const Deadline deadline = Deadline::in_ms(agent->timeout_ms());
  const auto wanted = [agent, peer] {
    const Lane& lane = agent->lanes().lanes_[peer];
    return !agent->leaving() && agent->here(peer) && !lane.done && !lane.incoming;
  };
  std::vector<Address> ways;
  if (transport::over_arena(other.member.transport()) != 0) {
    ways.push_back(other.unix_address);
  } else if (other.tcp_address) {
    ways.push_back(other.tcp_address);
  }
  std::string why;
  while (wanted()) {
    Call call = agent->call_to(peer, Purpose::lane, ways, deadline);
    call.wanted = wanted;
    try {
      std::shared_ptr<Stream> stream = co_await dial(agent->service().io(), std::move(call));
      if (!wanted()) break;
      const bool settled = co_await offer(agent, peer, std::move(stream));
      if (settled) break;
    } catch (const Error& error) {
      why = error.text();
      if (error.code() == ANELLO_ERR_AUTH || error.code() == ANELLO_ERR_VERSION) break;
    }
    if (deadline.passed()) break;
    // The peer's own connection is being made, or this one broke.
    co_await sleep_ms(agent->service().io(), 5);
  }
  Lane& lane = agent->lanes().lanes_[peer];
  lane.dialling = false;
  if (lane.done || lane.incoming || agent->leaving() || !agent->here(peer)) co_return;
  Event event;
  event.kind = Event::Kind::lost;
  event.peer = peer;
  event.found_here = true;
  event.error =
      Error(ANELLO_ERR_PEER_LOST,
            text("no connection to ", describe(other.member), " within ", agent->timeout_ms(), " ms: ", why), peer);
  agent->mailbox().put(std::move(event));
}

// True: the lane exists (this one or the peer's), or is about to.
Task<bool> Lanes::offer(std::shared_ptr<Agent> agent, int peer, std::shared_ptr<Stream> stream) {
  const TimeLimit limit(stream, kAnswerMs);
  std::byte answer{};
  co_await stream->read({&answer, 1});
  Lane& lane = agent->lanes().lanes_[peer];
  if (agent->leaving() || lane.done || lane.incoming) co_return true;
  if (answer != kTaken) co_return false;
  const std::byte confirmation[] = {kConfirmed, std::byte{++lane.attempt}};
  Streams streams = co_await dial_rails(agent, peer, lane.attempt);
  if (agent->leaving() || lane.done || lane.incoming) co_return true;
  streams.insert(streams.begin(), stream);
  co_await stream->write(confirmation);
  if (lane.done || agent->leaving()) co_return true;
  agent->lanes().deliver(peer, streams);
  co_return true;
}

std::size_t Lanes::rails_to(int peer) const {
  const Peer& other = agent_.peer(peer);
  const std::uint32_t best = other.member.transport();
  for (const transport::Row& row : transport::registry()) {
    if (row.bit() == best && row.rails) return rails_between(agent_.peer(agent_.rank()), other);
  }
  return 1;
}

// Throws Error if one of them cannot be had.
Task<Lanes::Streams> Lanes::dial_rails(std::shared_ptr<Agent> agent, int peer, std::uint8_t attempt) {
  Streams streams;
  const Deadline deadline = Deadline::in_ms(std::min(kRailsMs, agent->timeout_ms()));
  const std::size_t rails = agent->lanes().rails_to(peer);
  for (std::size_t rail = 1; rail < rails; ++rail) {
    Call call = agent->call_to(peer, Purpose::rail, {agent->peer(peer).rails[rail - 1]}, deadline);
    call.wanted = [agent, peer] { return !agent->leaving() && agent->here(peer) && !agent->lanes().lanes_[peer].done; };
    std::shared_ptr<Stream> stream;
    try {
      stream = co_await dial(agent->service().io(), std::move(call));
      const TimeLimit limit(stream, kAnswerMs);
      const std::byte mark[] = {std::byte{attempt}, std::byte(rail)};
      co_await stream->write(mark);
      std::byte answer{};
      co_await stream->read({&answer, 1});
      if (answer != kTaken) throw Error(ANELLO_ERR_PEER_LOST, "the peer expects no such connection");
    } catch (const Error& error) {
      throw Error(error.code(), text("rail ", rail + 1, " of ", rails, " (ANELLO_INTERFACES): ", error.text()), peer);
    }
    streams.push_back(std::move(stream));
  }
  co_return streams;
}

void Lanes::adopt_rail(int from, std::shared_ptr<Stream> stream) {
  agent_.service().spawn("rail", receive_rail(agent_.shared_from_this(), from, std::move(stream)));
}

Task<> Lanes::receive_rail(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream) {
  const TimeLimit limit(stream, kAnswerMs);
  std::byte mark[2];
  co_await stream->read(mark);
  Lane& lane = agent->lanes().lanes_[from];
  const auto rail = std::to_integer<std::size_t>(mark[1]);
  if (agent->leaving() || !lane.incoming || rail < 1 || rail > lane.rails.size()) co_return;
  lane.rails[rail - 1] = {std::to_integer<std::uint8_t>(mark[0]), stream};
  co_await stream->write({&kTaken, 1});
}

void Lanes::adopt(int from, std::shared_ptr<Stream> stream) {
  agent_.service().spawn("lane", receive(agent_.shared_from_this(), from, std::move(stream)));
}

Task<> Lanes::receive(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream) {
  const TimeLimit limit(stream, kAnswerMs);
  {
    Lane& lane = agent->lanes().lanes_[from];
    if (lane.done || agent->leaving()) co_return;
    if (lane.dialling && from > agent->rank()) {
      co_await stream->write({&kComing, 1});
      co_return;
    }
    // The same peer connects again: its earlier connection broke on its side.
    if (lane.incoming) lane.incoming->close();
    lane.incoming = stream;
    lane.rails.assign(agent->lanes().rails_to(from) - 1, {});
  }
  bool confirmed = false;
  std::byte answer[2] = {};
  try {
    co_await stream->write({&kTaken, 1});
    co_await stream->read(answer);
    confirmed = answer[0] == kConfirmed;
  } catch (const Error&) {
    // The peer has changed its mind, or tries again.
  }
  Lane& lane = agent->lanes().lanes_[from];
  if (lane.incoming != stream) co_return;
  lane.incoming.reset();
  Streams streams{stream};
  for (auto& [attempt, rail] : lane.rails) {
    confirmed = confirmed && rail != nullptr && rail->open() && std::byte{attempt} == answer[1];
    streams.push_back(std::move(rail));
  }
  lane.rails.clear();
  if (agent->leaving() || lane.done) co_return;
  if (confirmed) {
    agent->lanes().deliver(from, streams);
  } else if (lane.wanted && !lane.dialling && agent->here(from)) {
    agent->lanes().start(from);
  }
}

void Lanes::deliver(int peer, const Streams& streams) {
  lanes_[peer].done = true;
  log::debug(agent_.rank(), "lane to rank ", peer, ", ", streams.size(), streams.size() == 1 ? " rail" : " rails");
  Event event;
  event.kind = Event::Kind::lane;
  event.peer = peer;
  for (const std::shared_ptr<Stream>& stream : streams) {
    event.rails.push_back(stream->release());
    limit_idleness(event.rails.back().get(), agent_.heartbeat().limit_ms());
  }
  agent_.mailbox().put(std::move(event));
}

bool Lanes::is_coming(int peer) const {
  const auto lane = lanes_.find(peer);
  return lane != lanes_.end() && lane->second.incoming != nullptr;
}

void Lanes::peer_gone(int peer) {
  const auto lane = lanes_.find(peer);
  if (lane != lanes_.end() && lane->second.incoming) lane->second.incoming->close();
}

void Lanes::close() {
  for (auto& [peer, lane] : lanes_) {
    if (lane.incoming) lane.incoming->close();
  }
}

}  // namespace anello::control
