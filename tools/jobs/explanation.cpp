#include "jobs/explanation.h"

#include "base/error.h"
#include "base/text.h"
#include "jobs/waiting.h"

#include <algorithm>
#include <cstdio>

#include <time.h>

namespace jobs {
namespace {

using anello::text;
using anello::recorder::CallRecord;
using anello::recorder::Waits;

std::string joined(const std::vector<int>& ranks) {
  constexpr std::size_t kMostNamed = 16;
  std::string list = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i)
    list += text(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  if (ranks.size() > kMostNamed) list += text(" and ", ranks.size() - kMostNamed, " more");
  return list;
}

std::string clock_text(std::int64_t ms) {
  const time_t seconds = ms / 1000;
  tm parts{};
  char out[32];
  if (::localtime_r(&seconds, &parts) == nullptr || std::strftime(out, sizeof out, "%H:%M:%S", &parts) == 0) return "";
  return text(out, ".", ms / 100 % 10);
}

std::string message_text(const Snapshot::Message& each, bool is_send) {
  const auto peer = each.message.peer < 0 ? std::string("any rank") : text("rank ", each.message.peer);
  return text(is_send ? "send to " : "recv from ", peer, ", ",
              each.message.tag < 0 ? std::string("any tag") : text("tag ", each.message.tag), ", ", each.message.bytes,
              " bytes");
}

const Snapshot::Message* in_flight(const std::vector<Snapshot::Message>& messages) {
  const auto found = std::find_if(messages.begin(), messages.end(), [](const auto& each) { return !each.ended; });
  return found == messages.end() ? nullptr : &*found;
}

class Paragraph {
 public:
  explicit Paragraph(const std::vector<const Snapshot*>& shown) : shown_(shown), waiting_(shown) {}

  std::string write() {
    head();
    for (const auto& [communicator, members] : waiting_.communicators()) mismatch(communicator, members);
    // Ranks that made different calls wait for each other because of that.
    const std::set<int> roots = found_ ? std::set<int>() : waiting_.roots();
    // Ranks that were told of a failure before their next call have not come either, because of those that cannot.
    const bool any_cannot = std::any_of(roots.begin(), roots.end(), [&](int root) { return cannot_come(root); });
    for (const int root : roots)
      if (!any_cannot || cannot_come(root)) stopped_first(root);
    if (!found_ && !waiting_.circle().empty()) circle();
    first_error();
    if (!found_) say("No rank waits for another one.");
    std::string out = out_ + "\n";
    for (const Snapshot* const each : shown_)
      out += text("  ", "rank ", each->who.world_rank, of(each->who.communicator), ": ", doing(*each), "\n");
    return out;
  }

 private:
  void say(const std::string& sentence) { out_ += sentence + "\n"; }

  // " of communicator 1", if there are several.
  std::string of(std::uint64_t communicator) const {
    if (waiting_.communicators().size() == 1) return "";
    char number[17];
    std::snprintf(number, sizeof number, "%llx", static_cast<unsigned long long>(communicator));
    return text(" of communicator ", number);
  }

  std::string full_name(int world_rank) const {
    for (const Snapshot* const each : shown_)
      if (each->who.world_rank == world_rank)
        return text("rank ", world_rank, " (host ", each->who.host, ", pid ", each->who.pid, ")");
    return text("rank ", world_rank);
  }

  void head() {
    std::vector<int> here, missing;
    const int size = shown_.front()->who.world_size;
    for (int rank = 0; rank < size; ++rank) (waiting_.shows(rank) ? here : missing).push_back(rank);
    char job[17];
    std::snprintf(job, sizeof job, "%016llx", static_cast<unsigned long long>(shown_.front()->who.job));
    say(text("Job ", job, " of ", size, size == 1 ? " rank: " : " ranks: ", joined(here),
             here.size() == 1 ? " is" : " are", " here",
             missing.empty() ? "." : text(", ", joined(missing), missing.size() == 1 ? " is" : " are", " not.")));
  }

  // The first operation of which ranks made different calls.
  void mismatch(std::uint64_t communicator, const Members& members) {
    std::set<std::uint32_t> sequences;
    for (const auto& [rank, shown] : members.by_rank)
      for (const auto& each : shown->collectives) sequences.insert(each.call.sequence);
    for (const std::uint32_t sequence : sequences) {
      std::map<std::uint64_t, std::pair<const CallRecord*, std::vector<int>>> calls;
      for (const auto& [rank, shown] : members.by_rank) {
        const Snapshot::Collective* const its = shown->find(sequence);
        if (its == nullptr) continue;
        auto& [call, ranks] = calls[anello::recorder::digest_of(its->call)];
        call = &its->call;
        ranks.push_back(shown->who.world_rank);
      }
      if (calls.size() < 2) continue;
      say_mismatch(communicator, sequence, calls);
      return;
    }
  }

  template <class Calls>
  void say_mismatch(std::uint64_t communicator, std::uint32_t sequence, const Calls& calls) {
    found_ = true;
    // The smallest party comes first: it is mostly the one to blame.
    std::vector<const typename Calls::mapped_type*> parties;
    for (const auto& [digest, party] : calls) parties.push_back(&party);
    std::stable_sort(parties.begin(), parties.end(),
                     [](const auto* a, const auto* b) { return a->second.size() < b->second.size(); });
    const CallRecord& one = *parties[0]->first;
    const CallRecord& other = *parties[1]->first;
    std::string differs = "the calls differ";
    if (one.kind == other.kind && one.refused != other.refused)
      differs = "one of the calls was refused";
    else if (one.kind == other.kind && one.dtype != other.dtype)
      differs = "the data types differ";
    else if (one.kind == other.kind && one.count != other.count)
      differs = "the sizes differ";
    else if (one.kind == other.kind && one.root != other.root)
      differs = "the roots differ";
    std::string said = text("The ranks disagree on operation ", sequence, of(communicator), ", ", differs, ": ");
    for (std::size_t i = 0; i < parties.size(); ++i)
      said += text(i == 0 ? "" : ", ", joined(parties[i]->second), " called ", parties[i]->first->describe());
    say(said + ".");
  }

  bool cannot_come(int root) const {
    return !waiting_.shows(root) ||
           std::any_of(waiting_.edges().begin(), waiting_.edges().end(),
                       [&](const Edge& edge) { return edge.to == root && edge.life != Waits::Life::runs; });
  }

  void stopped_first(int root) {
    found_ = true;
    std::set<int> waiters;
    const Edge* first = nullptr;
    Waits::Life life = Waits::Life::runs;
    for (const Edge& edge : waiting_.edges()) {
      if (edge.to != root) continue;
      waiters.insert(edge.from);
      if (first == nullptr) first = &edge;
      if (edge.life != Waits::Life::runs) life = edge.life;
    }
    const std::vector<int> list(waiters.begin(), waiters.end());
    const std::string waits = text(list.size() == 1 ? " waits" : " wait");
    std::string said = text("Rank", full_name(root).substr(4));
    const std::string who = joined(list);
    switch (first->why) {
      case Edge::Why::never_entered: {
        said += text(waiting_.shows(root) ? " stopped first: it never entered "
                                          : " is what the others wait for: it has not entered ",
                     call_of(*first), of(first->communicator), ", in which ", who, waits, since(*first), ".",
                     last_of(root, *first));
        break;
      }
      case Edge::Why::data:
        said += text(" is what the others wait for: ", who, waits, " for its data in ", call_of(*first),
                     of(first->communicator), since(*first), ".");
        break;
      case Edge::Why::room:
        said += text(" is what the others wait for: it does not read what ", who, list.size() == 1 ? " sends" : " send",
                     " it in ", call_of(*first), of(first->communicator), ".");
        break;
      case Edge::Why::message:
        said += text(" is what the others wait for: ", who, waits, " for a message from it", " (", message_in(*first),
                     ")", of(first->communicator), ".");
        break;
      case Edge::Why::receive:
        said += text(" is what the others wait for: ", who, waits, " for it to receive", " (", message_in(*first), ")",
                     of(first->communicator), ".");
        break;
    }
    say(said);
    say_state(root, life);
  }

  std::string message_in(const Edge& edge) const {
    const bool is_send = edge.why == Edge::Why::receive;
    const auto* const each = in_flight(is_send ? edge.shown->sent : edge.shown->received);
    return each == nullptr ? "" : message_text(*each, is_send);
  }

  static std::string call_of(const Edge& edge) {
    const auto* const each = edge.shown->find(edge.sequence);
    return text("operation ", edge.sequence, each == nullptr ? "" : text(", ", each->call.describe()));
  }

  static std::string since(const Edge& edge) {
    const auto* const each = edge.shown->find(edge.sequence);
    return each == nullptr || each->times.seen_ms == 0 ? "" : text(" since ", clock_text(each->times.seen_ms));
  }

  // What the absent rank did last in the communicator.
  std::string last_of(int root, const Edge& edge) const {
    const auto members = waiting_.communicators().find(edge.communicator);
    for (const auto& [rank, shown] : members->second.by_rank) {
      if (shown->who.world_rank != root) continue;
      if (shown->collectives.empty()) return " It has made no collective call there.";
      const Snapshot::Collective& last = shown->collectives.back();
      return text(" Its last one is ", last.call.sequence, ", ", last.call.describe(),
                  last.ended ? ", which has ended" : ", which is in flight",
                  last.times.ended_ms == 0 ? "" : text(" at ", clock_text(last.times.ended_ms)), ".");
    }
    return "";
  }

  void say_state(int root, Waits::Life life) {
    const std::string name = text("Rank ", root);
    const Snapshot* reporter = nullptr;
    for (const Snapshot* const each : shown_) {
      if (each->error && each->error->peer == root && each->error->code == ANELLO_ERR_PEER_LOST) reporter = each;
    }
    if (life == Waits::Life::stopped)
      say(name + " was stopped by a signal or a debugger.");
    else if (life == Waits::Life::silent)
      say(name + "'s host was silent: it has no power, no network, or its service thread does not run.");
    else if (reporter != nullptr)
      say(name + " is gone: its process has ended, or it has left the job.");
    else if (life == Waits::Life::lost)
      say(name + " is dead: its process has ended, or its host cannot be reached.");
    else if (!waiting_.shows(root))
      say(name + " shows nothing here: its process had ended or was stopped, or its file is on another host.");
    else
      say(name + " is in no call that waits: look at what its program does, by py-spy dump or gdb, with its pid.");
  }

  void circle() {
    found_ = true;
    const std::vector<int> ranks = waiting_.circle();
    std::string said = text("Ranks wait for each other in a circle: ");
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int to = ranks[(i + 1) % ranks.size()];
      for (const Edge& edge : waiting_.edges()) {
        if (edge.from != ranks[i] || edge.to != to) continue;
        const bool is_message = edge.why == Edge::Why::message || edge.why == Edge::Why::receive;
        said += text(i == 0 ? "" : "; ", "rank ", edge.from, " waits for rank ", to, " in ",
                     is_message ? message_in(edge) : call_of(edge), of(edge.communicator));
        break;
      }
    }
    say(said + ".");
  }

  void first_error() {
    const Snapshot* first = nullptr;
    for (const Snapshot* const each : shown_) {
      if (each->error && (first == nullptr || each->error->at_ms < first->error->at_ms)) first = each;
    }
    if (first == nullptr) return;
    found_ = true;
    say(text("The first error, at ", clock_text(first->error->at_ms), " on rank ", first->who.world_rank, ", is ",
             anello::result_name(first->error->code), ": ", first->error->text));
  }

  const std::vector<const Snapshot*>& shown_;
  const Waiting waiting_;
  std::string out_;
  bool found_ = false;
};

}  // namespace

std::string doing(const Snapshot& shown) {
  if (const Snapshot::Collective* const in = shown.in_flight()) {
    std::string said = text("in operation ", in->call.sequence, ", ", in->call.describe());
    if (!shown.waits || shown.waits->sequence != in->call.sequence) return said;
    const Waits& waits = *shown.waits;
    if (waits.steps > 0) said += text(", ", waits.steps_ended, " of ", waits.steps, " steps done");
    for (const auto& [what, words] : {std::pair{Waits::What::call, ", waits for "},
                                      {Waits::What::data, ", waits for data from "},
                                      {Waits::What::room, ", waits for room to send to "}}) {
      std::vector<int> ranks;
      for (int i = 0; i < waits.peers; ++i)
        if (waits.peer[i].what == what) ranks.push_back(waits.peer[i].world_rank);
      if (!ranks.empty()) said += words + joined(ranks);
    }
    return said;
  }
  if (const auto* const receive = in_flight(shown.received)) return "in " + message_text(*receive, false);
  if (const auto* const send = in_flight(shown.sent)) return "in " + message_text(*send, true);
  if (shown.collectives.empty()) return shown.totals.empty() ? "no call yet" : "in no call";
  const Snapshot::Collective& last = shown.collectives.back();
  return text("in no call; the last collective is ", last.call.sequence, ", ", last.call.describe());
}

std::string explain(const std::vector<Snapshot>& shown) {
  std::map<std::uint64_t, std::vector<const Snapshot*>> jobs;
  for (const Snapshot& each : shown) jobs[each.who.job].push_back(&each);
  std::string out;
  for (auto& [job, ranks] : jobs) {
    std::sort(ranks.begin(), ranks.end(), [](const Snapshot* a, const Snapshot* b) {
      return std::pair(a->who.world_rank, a->who.communicator) < std::pair(b->who.world_rank, b->who.communicator);
    });
    out += text(out.empty() ? "" : "\n", Paragraph(ranks).write());
  }
  return out;
}

}  // namespace jobs
