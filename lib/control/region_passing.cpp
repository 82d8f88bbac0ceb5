#include "control/region_passing.h"

#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"
#include "control/descriptor_passing.h"
#include "transports/region.h"

namespace anello::control {
namespace {

constexpr std::byte kHere{'y'}, kGone{'n'};
constexpr std::int64_t kAnswerMs = 10'000;

}  // namespace

void RegionPassing::request(int peer, std::uint64_t region) {
  agent_.service().spawn("region", fetch(agent_.shared_from_this(), peer, region));
}

Task<> RegionPassing::fetch(std::shared_ptr<Agent> agent, int peer, std::uint64_t region) {
  Event event;
  event.kind = Event::Kind::region;
  event.peer = peer;
  event.region = region;
  try {
    const Address& address = agent->peer(peer).unix_address;
    if (!address || !agent->here(peer)) throw Error(ANELLO_ERR_PEER_LOST, "it is gone");
    const Deadline deadline = Deadline::in_ms(kAnswerMs);
    Call call = agent->call_to(peer, Purpose::region, {address}, deadline);
    call.wanted = [agent, peer] { return !agent->leaving() && agent->here(peer); };
    const std::shared_ptr<Stream> stream = co_await dial(agent->service().io(), std::move(call));
    require_same_user(stream->descriptor());
    const TimeLimit limit(stream, kAnswerMs);
    co_await stream->write(std::as_bytes(std::span(&region, 1)));
    std::vector<UniqueFd> passed;
    const std::byte mark = co_await stream->read_descriptors(passed);
    if (mark != kHere || passed.size() != 1) throw Error(ANELLO_ERR_STATE, "it has no such memory");
    event.fd = std::move(passed.front());
  } catch (const Error& error) {
    event.error = Error(error.code(), text("the memory of ", describe(agent->peer(peer).member), " cannot be had: ", error.text()),
                        peer);
    log::debug(agent->rank(), event.error.text());
  }
  agent->mailbox().put(std::move(event));
}

void RegionPassing::adopt(int from, std::shared_ptr<Stream> stream) {
  agent_.service().spawn("region", serve(agent_.shared_from_this(), from, std::move(stream)));
}

Task<> RegionPassing::serve(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream) {
  const TimeLimit limit(stream, kAnswerMs);
  require_same_user(stream->descriptor());
  std::uint64_t region = 0;
  co_await stream->read(std::as_writable_bytes(std::span(&region, 1)));
  const UniqueFd memory = transport::region_descriptor(region);
  log::debug(agent->rank(), "rank ", from, memory ? " maps" : " asks in vain for", " memory of this process");
  if (!memory) {
    co_await stream->write({&kGone, 1});
    co_return;
  }
  const int descriptor = memory.get();
  co_await stream->write_descriptors(kHere, {&descriptor, 1});
}

}  // namespace anello::control
