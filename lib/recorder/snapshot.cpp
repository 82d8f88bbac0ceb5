#include "recorder/snapshot.h"

#include "base/clock.h"
#include "base/kind.h"

#include <algorithm>

namespace anello::recorder {
namespace {

class Times {
 public:
  Times() {
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    now_ms_ = std::int64_t{wall.tv_sec} * 1000 + wall.tv_nsec / kMs;
    ahead_ms_ = now_ms_ - now_ns() / kMs;
  }
  std::int64_t now_ms() const { return now_ms_; }
  // The wall clock's time at a time of the monotonic clock.
  std::int64_t at(std::int64_t ns) const { return ns == 0 ? 0 : ns / kMs + ahead_ms_; }
  Snapshot::Times of(const Ending& ending) const { return {at(ending.seen_ns), at(ending.ended_ns)}; }

 private:
  std::int64_t now_ms_ = 0;
  std::int64_t ahead_ms_ = 0;
};

std::uint64_t first_of(std::uint64_t noted) {
  return noted > Snapshot::kOperations ? noted - Snapshot::kOperations : 0;
}

std::vector<Snapshot::Message> messages_of(const MessageLog& log, const Times& times) {
  std::vector<Snapshot::Message> messages;
  const std::uint64_t noted = log.noted();
  for (std::uint64_t number = first_of(noted); number < noted; ++number) {
    const auto entry = log.read(number);
    if (!entry) continue;
    Snapshot::Message message;
    message.number = number;
    message.message = entry->message;
    message.ended = !entry->ending || entry->ending->ended;
    if (entry->ending) {
      message.result = static_cast<anello_result_t>(entry->ending->result);
      message.times = times.of(*entry->ending);
    }
    messages.push_back(message);
  }
  return messages;
}

template <std::size_t Bytes>
void terminate(char (&text)[Bytes]) {
  text[Bytes - 1] = '\0';
}

}  // namespace

const Snapshot::Collective* Snapshot::find(std::uint32_t sequence) const {
  const auto found = std::find_if(collectives.begin(), collectives.end(),
                                  [&](const Collective& each) { return each.call.sequence == sequence; });
  return found == collectives.end() ? nullptr : &*found;
}

const Snapshot::Collective* Snapshot::in_flight() const {
  const auto found =
      std::find_if(collectives.begin(), collectives.end(), [](const Collective& each) { return !each.ended; });
  return found == collectives.end() ? nullptr : &*found;
}

Snapshot snapshot_of(const Section& section) {
  const Times times;
  Snapshot taken;
  taken.taken_ms = times.now_ms();
  taken.version = ANELLO_VERSION_STRING;
  taken.who = section.who.read().value_or(Identity{});
  terminate(taken.who.host);
  const std::uint64_t noted = section.ledger.noted();
  for (std::uint64_t number = first_of(noted); number < noted; ++number) {
    const auto entry = section.ledger.entry(number);
    if (!entry) continue;
    taken.collectives.push_back(
        {entry->call, entry->ended, static_cast<anello_result_t>(entry->ending.result), times.of(entry->ending)});
  }
  taken.sent = messages_of(section.sent, times);
  taken.received = messages_of(section.received, times);
  const Ledger::Totals totals = section.ledger.totals(taken.who.size);
  for (std::size_t kind = 0; kind < totals.size(); ++kind)
    if (totals[kind].calls != 0) taken.totals[kind == Ledger::kOther ? "other" : kind_name(int(kind))] = totals[kind];
  if (section.sent.noted() != 0) taken.totals["send"] = {section.sent.noted(), section.sent.bytes()};
  if (section.received.noted() != 0) taken.totals["recv"] = {section.received.noted(), section.received.bytes()};
  if (auto waits = section.waits.read()) {
    waits->peers = std::clamp(waits->peers, 0, Waits::kMost);
    const Snapshot::Collective* const of = taken.find(waits->sequence);
    if (of != nullptr && !of->ended) taken.waits = waits;
  }
  if (auto failure = section.failure.read()) {
    terminate(failure->text);
    taken.error = {static_cast<anello_result_t>(failure->code), failure->peer, times.at(failure->at_ns), failure->text};
  }
  return taken;
}

}  // namespace anello::recorder
