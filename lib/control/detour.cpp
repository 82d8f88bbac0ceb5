#include "control/detour.h"

#include "base/clock.h"
#include "base/log.h"
#include "control/agent.h"
#include "control/bodies.h"
#include "control/occupancy.h"

#include <algorithm>

namespace anello::control {
namespace {

// The time for a running parent to answer on an overloaded machine.
constexpr std::int64_t kWordMs = 250;
// A ready thread may wait this long for each rank with which it shares the processor.
constexpr std::int64_t kTimeSliceMs = 4;
// The delay between one rank and the next before they report an end.
constexpr std::int64_t kStepMs = 2;
// If this rank's own timers are this late, a running parent may be equally late: it gets the same time again, up to
// this many times.
constexpr std::int64_t kLateMs = 20;
constexpr int kMostRepeats = 8;
constexpr std::int64_t kTellMs = 3'000;
constexpr std::size_t kMostHeard = 256;
constexpr std::size_t kAtOnce = 32;  // connections of one round

}  // namespace

std::int64_t Detour::patience_ms() const {
  std::vector<Member> members;
  for (const Peer& peer : agent_.peers()) members.push_back(peer.member);
  if (members.empty()) return kWordMs;
  const int sharing = std::max(occupancy_of(members, agent_.rank()).ranks_per_processor(),
                               occupancy_of(members, agent_.lowest_here()).ranks_per_processor());
  // Both its thread and this rank's thread may have to wait for a processor.
  return kWordMs + (sharing > 1 ? 2 * sharing * kTimeSliceMs : 0);
}

void Detour::send(const Frame& frame, const std::vector<int>& ranks) {
  agent_.tree().send(frame);
  if (agent_.lowest_here() == agent_.rank()) return;
  ++said_;
  if (frame.kind == kFailed) last_end_ = said_;
  const std::int64_t now = now_ns();
  const std::int64_t patience = patience_ms();
  const bool known_silent = silent_since_ns_ != 0 && now - silent_since_ns_ > patience * 1'000'000;
  if (silent_since_ns_ == 0) silent_since_ns_ = now;
  if (Link* const parent = agent_.tree().link_to(agent_.lowest_here())) ask_for_word(*parent);
  agent_.service().spawn(
      "detour", retry_until_answered(agent_.weak_from_this(), frame, ranks, said_, known_silent ? 0 : patience));
}

void Detour::ask_for_word(Link& parent) {
  if (said_ != passed_) parent.send(Writer().put(said_).frame(kPassOn));
}

void Detour::word_from_parent(Reader& reader) {
  const auto number = reader.take_in<std::uint64_t>(0, said_);
  reader.end();
  passed_ = std::max(passed_, number);
  silent_since_ns_ = passed_ == said_ ? 0 : now_ns();
}

bool Detour::settled() const { return told_ >= last_end_ || passed_on(last_end_); }

bool Detour::passed_on(std::uint64_t number) const {
  return passed_ >= number || agent_.lowest_here() == agent_.rank();
}

Task<> Detour::retry_until_answered(std::weak_ptr<Agent> weak, Frame frame, std::vector<int> ranks,
                                    std::uint64_t number, std::int64_t patience_ms) {
  std::shared_ptr<Agent> agent = weak.lock();
  if (!agent) co_return;
  asio::io_context& io = agent->service().io();
  agent.reset();
  const std::int64_t said_ns = now_ns();
  const auto goes_without = [&] {
    agent = weak.lock();
    return !agent || agent->leaving() || agent->detour().passed_on(number);
  };
  for (int repeats = 0; patience_ms > 0 && repeats < kMostRepeats; ++repeats) {
    const std::int64_t from_ns = now_ns();
    co_await sleep_ms(io, patience_ms);
    if (goes_without()) co_return;
    agent.reset();
    if (now_ns() - from_ns < (patience_ms + kLateMs) * 1'000'000) break;
  }
  if (goes_without()) co_return;
  if (frame.kind == kFailed) {
    const std::int64_t step_ms = kStepMs * agent->rank();
    agent.reset();
    co_await sleep_ms(io, step_ms);
    if (goes_without()) co_return;
    const auto heard = agent->detour().heard_.find(Reader(frame.body).take<std::uint64_t>());
    if (heard != agent->detour().heard_.end() && heard->second >= said_ns) {
      agent->detour().told_ = std::max(agent->detour().told_, number);
      co_return;
    }
  }
  const int parent = agent->lowest_here();
  log::info(agent->rank(), agent->who(parent),
            " does not forward this rank's messages: this rank tells the others itself");
  const auto round = std::make_shared<Round>();
  round->frame = std::move(frame);
  round->number = number;
  for (const int rank : ranks) {
    if (rank != agent->rank() && rank != parent) round->ranks.push_back(rank);
  }
  if (round->ranks.empty()) agent->detour().told_ = std::max(agent->detour().told_, number);
  agent->detour().begin(round);
}

void Detour::send_directly(const Frame& frame, const std::vector<int>& ranks) {
  const auto round = std::make_shared<Round>();
  round->frame = frame;
  round->ranks.assign(ranks.begin(), ranks.end());
  begin(round);
}

void Detour::begin(const std::shared_ptr<Round>& round) {
  round->workers = std::min(kAtOnce, round->ranks.size());
  for (std::size_t i = round->workers; i > 0; --i) {
    agent_.service().spawn("detour", go_round(agent_.shared_from_this(), round));
  }
}

Task<> Detour::go_round(std::shared_ptr<Agent> agent, std::shared_ptr<Round> round) {
  while (!round->ranks.empty() && !agent->leaving()) {
    const int rank = round->ranks.front();
    round->ranks.pop_front();
    if (!agent->here(rank)) continue;
    try {
      co_await tell(agent, rank, round->frame);
    } catch (const Unknown& over) {
      agent->not_there(rank, over);
    } catch (const Error& error) {
      log::debug(agent->rank(), "rank ", rank, " cannot be told: ", error.text());
    }
  }
  if (--round->workers == 0) agent->detour().told_ = std::max(agent->detour().told_, round->number);
}

Task<> Detour::tell(std::shared_ptr<Agent> agent, int rank, Frame frame) {
  Call call = agent->call_to(rank, Purpose::detour, ways_to(agent->peer(agent->rank()), agent->peer(rank)),
                             Deadline::in_ms(kTellMs));
  call.wanted = [agent, rank] { return !agent->leaving() && agent->here(rank); };
  call.must_exist = true;
  std::shared_ptr<Stream> stream = co_await dial(agent->service().io(), std::move(call));
  const TimeLimit limit(stream, kTellMs);
  const auto link = std::make_shared<Link>(agent->service(), std::move(stream));
  link->send(frame);
  const Frame answer = co_await link->receive();
  if (agent->leaving() || answer.kind != kAnswer) co_return;
  Reader reader(answer.body);
  AnswerBody said = take_answer(reader, agent->size());
  if (said.asker == agent->rank()) agent->calls().answered(std::move(said));
}

void Detour::adopt(int from, std::shared_ptr<Stream> stream) {
  agent_.service().spawn("detour", hear(agent_.shared_from_this(), from, std::move(stream)));
}

Task<> Detour::hear(std::shared_ptr<Agent> agent, int from, std::shared_ptr<Stream> stream) {
  const TimeLimit limit(stream, kTellMs);
  const auto link = std::make_shared<Link>(agent->service(), std::move(stream));
  const Frame frame = co_await link->receive();
  if (agent->leaving()) co_return;
  Reader reader(frame.body);
  Frame answer = Writer().put(std::uint64_t{0}).frame(kPassedOn);
  switch (frame.kind) {
    case kAsk:
      if (auto calls = agent->calls().asked(reader)) answer = std::move(calls->frame);
      break;
    case kFailed: {
      agent->calls().failed(reader);
      auto& heard = agent->detour().heard_;
      if (heard.size() >= kMostHeard) heard.clear();
      heard[Reader(frame.body).take<std::uint64_t>()] = now_ns();
      break;
    }
    case kLife:
    case kSilent: agent->receive(from, frame); break;
    default: throw Reader::corrupt();
  }
  log::debug(agent->rank(), "told by rank ", from, " itself");
  link->send(answer);
  co_await Link::flushed(link, kTellMs);
}

}  // namespace anello::control
