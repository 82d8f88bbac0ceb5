#include "control/call_comparison.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/agent.h"

#include <algorithm>

namespace anello::control {
namespace {

constexpr std::size_t kMaxRemoved = 64;
constexpr std::size_t kMaxQuestions = 64;
// The time to wait for the others' answers after the first sign of disagreement, so that the text names all ranks that
// can answer.
constexpr std::int64_t kMoreAnswersMs = 20;
// For this time, another rank's question replaces this rank's own; after that, the asking rank may no longer run.
constexpr std::int64_t kHeardMs = 500;

}  // namespace

void CallComparison::add(std::uint64_t id, std::vector<int> ranks, recorder::Record* record) {
  const std::lock_guard lock(mutex_);
  communicators_[id] = {std::move(ranks), record, 0, {}};
}

void CallComparison::remove(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(id);
  if (found == communicators_.end()) return;
  const Ledger& ledger = (*found->second.record)->ledger;
  const auto newest = ledger.newest();
  CallHistory history = history_of(ledger, newest ? newest->sequence : 0);
  history.destroyed = true;
  removed_.push_back({id, std::move(history)});
  if (removed_.size() > kMaxRemoved) removed_.pop_front();
  communicators_.erase(found);
}

std::optional<std::vector<int>> CallComparison::ranks_of(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(id);
  if (found == communicators_.end()) return std::nullopt;
  return found->second.ranks;
}

Absent CallComparison::absent(std::uint64_t id, std::uint32_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(id);
  if (found == communicators_.end() || found->second.compared != sequence) return {};
  return found->second.absent;
}

void CallComparison::note_absent(const Key& key, const Question& question) {
  Absent absent;
  for (int rank = 0; rank < static_cast<int>(question.ranks.size()); ++rank) {
    // A rank that has already answered may have arrived or stopped meanwhile.
    if (!question.answered.contains(rank)) {
      absent.silent.push_back(rank);
    } else if (const auto& newest = question.answers.at(rank).newest; !newest || before(*newest, key.second)) {
      absent.not_come.push_back(rank);
    }
  }
  const std::lock_guard lock(mutex_);
  const auto found = communicators_.find(key.first);
  if (found == communicators_.end()) return;
  found->second.compared = key.second;
  found->second.absent = std::move(absent);
}

std::optional<CallHistory> CallComparison::own_history(std::uint64_t id, std::uint32_t sequence) {
  const std::lock_guard lock(mutex_);
  if (const auto found = communicators_.find(id); found != communicators_.end()) {
    return history_of((*found->second.record)->ledger, sequence);
  }
  const auto gone = std::find_if(removed_.begin(), removed_.end(), [&](const Removed& r) { return r.id == id; });
  if (gone == removed_.end()) return std::nullopt;
  return cut_after(gone->history, sequence);
}

void CallComparison::compare(std::uint64_t id, std::uint32_t sequence, int differs) {
  auto ranks = ranks_of(id);
  auto own = own_history(id, sequence);
  if (!ranks || !own) return;
  const Key key{id, sequence};
  Question& question = questions_[key];
  if (question.ranks.empty()) {
    asked_.push_back(key);
    if (asked_.size() > kMaxQuestions) {
      questions_.erase(asked_.front());
      asked_.pop_front();
    }
  }
  question.ranks = std::move(*ranks);
  question.answered.clear();
  const auto self = std::find(question.ranks.begin(), question.ranks.end(), agent_.rank());
  if (self != question.ranks.end()) {
    const auto rank = static_cast<int>(self - question.ranks.begin());
    question.answers[rank] = std::move(*own);
    question.answered.insert(rank);
    if (differs >= 0) question.known = {rank, differs};
  }
  agent_.detour().send(Writer().put(id).put(sequence).put(agent_.rank()).frame(kAsk), question.ranks);
  consider(key);
}

void CallComparison::look(std::uint64_t id, std::uint32_t sequence) {
  const auto heard = heard_.find(id);
  const bool stands = heard != heard_.end() && now_ns() - heard->second.at_ns < kHeardMs * 1'000'000;
  if (stands && !before(heard->second.sequence, sequence)) return;
  compare(id, sequence, -1);
}

std::optional<CallComparison::Answer> CallComparison::asked(Reader& reader) {
  const AskBody ask = take_ask(reader, agent_.size());
  const auto own = own_history(ask.communicator, ask.sequence);
  if (!own) return std::nullopt;
  if (heard_.size() >= kMaxQuestions && !heard_.contains(ask.communicator)) heard_.erase(heard_.begin());
  heard_[ask.communicator] = {ask.sequence, now_ns()};
  Writer writer;
  writer.put(ask.asker).put(agent_.rank()).put(ask.communicator).put(ask.sequence);
  put_history(writer, *own);
  return Answer{ask.asker, writer.frame(kAnswer)};
}

void CallComparison::answered(AnswerBody answer) {
  const Key key{answer.communicator, answer.sequence};
  const auto question = questions_.find(key);
  if (question == questions_.end()) return;
  const std::vector<int>& ranks = question->second.ranks;
  const auto member = std::find(ranks.begin(), ranks.end(), answer.from);
  if (member == ranks.end()) return;
  const auto rank = static_cast<int>(member - ranks.begin());
  question->second.answers[rank] = std::move(answer.history);
  question->second.answered.insert(rank);
  consider(key);
}

void CallComparison::consider(const Key& key) {
  Question& question = questions_[key];
  note_absent(key, question);
  if (question.concluding || !judge(question.answers, key.second, question.known)) return;
  question.concluding = true;
  agent_.service().spawn("call comparison", conclude_soon(agent_.weak_from_this(), key));
}

Task<> CallComparison::conclude_soon(std::weak_ptr<Agent> weak, Key key) {
  std::shared_ptr<Agent> agent = weak.lock();
  if (!agent) co_return;
  asio::io_context& io = agent->service().io();
  agent.reset();
  co_await sleep_ms(io, kMoreAnswersMs);
  agent = weak.lock();
  if (agent && !agent->leaving()) agent->calls().conclude(key);
}

void CallComparison::conclude(const Key& key) {
  const auto found = questions_.find(key);
  if (found == questions_.end()) return;
  const Question question = std::move(found->second);
  questions_.erase(found);
  std::erase(asked_, key);
  const auto verdict = judge(question.answers, key.second, question.known);
  if (!verdict) return;
  const int peer = verdict->peer() < 0 ? -1 : question.ranks[static_cast<std::size_t>(verdict->peer())];
  const Error error(verdict->code(), verdict->text(), peer);
  // This comes first: this process may end as soon as its caller knows.
  send_to_all(key.first, question.ranks, error);
  deliver(key.first, error);
}

void CallComparison::send_to_all(std::uint64_t id, const std::vector<int>& ranks, const Error& error) {
  Writer writer;
  writer.put(id);
  put_error(writer, error);
  const std::size_t listed = ranks.size() <= kMaxListed ? ranks.size() : 0;
  writer.put(static_cast<std::uint32_t>(listed));
  for (std::size_t i = 0; i < listed; ++i) writer.put(ranks[i]);
  agent_.detour().send(writer.frame(kFailed), ranks);
}

void CallComparison::failed(Reader& reader) {
  const FailedBody failed = take_failed(reader, agent_.size());
  const bool mine =
      failed.ranks.empty() || std::find(failed.ranks.begin(), failed.ranks.end(), agent_.rank()) != failed.ranks.end();
  if (mine) deliver(failed.communicator, failed.error);
}

void CallComparison::deliver(std::uint64_t id, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    const auto gone = std::find_if(removed_.begin(), removed_.end(), [&](const Removed& r) { return r.id == id; });
    const auto found = communicators_.find(id);
    if (found != communicators_.end()) {
      // The rank may be computing, and hear of it later.
      found->second.record->fail_elsewhere(error);
    } else if (gone != removed_.end()) {
      return;
    }
  }
  Event event;
  event.kind = Event::Kind::failed;
  event.peer = error.peer();
  event.communicator = id;
  event.error = error;
  agent_.mailbox().put(std::move(event));
}

}  // namespace anello::control
