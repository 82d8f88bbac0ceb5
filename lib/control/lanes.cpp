#include "control/lanes.h"

#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"
#include "transports/registry.h"

namespace anello::control {
namespace {

// The listener's answer to a lane, and the dialler's to that.
constexpr std::byte kTaken{'y'}, kComing{'n'}, kConfirmed{'k'};
constexpr std::int64_t kAnswerMs = 10'000;

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
  co_await stream->write({&kConfirmed, 1});
  if (lane.done || agent->leaving()) co_return true;
  agent->lanes().deliver(peer, *stream);
  co_return true;
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
  }
  bool confirmed = false;
  try {
    co_await stream->write({&kTaken, 1});
    std::byte answer{};
    co_await stream->read({&answer, 1});
    confirmed = answer == kConfirmed;
  } catch (const Error&) {
    // The peer has changed its mind, or tries again.
  }
  Lane& lane = agent->lanes().lanes_[from];
  if (lane.incoming != stream) co_return;
  lane.incoming.reset();
  if (agent->leaving() || lane.done) co_return;
  if (confirmed) {
    agent->lanes().deliver(from, *stream);
  } else if (lane.wanted && !lane.dialling && agent->here(from)) {
    agent->lanes().start(from);
  }
}

void Lanes::deliver(int peer, Stream& stream) {
  lanes_[peer].done = true;
  log::debug(agent_.rank(), "lane to rank ", peer);
  Event event;
  event.kind = Event::Kind::lane;
  event.peer = peer;
  event.fd = stream.release();
  limit_idleness(event.fd.get(), agent_.heartbeat().limit_ms());
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
