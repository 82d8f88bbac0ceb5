#include "model/cut.h"

#include <algorithm>

namespace anello::model {

const std::vector<std::string> Cut::kFeatures{"threads", "rounds", "nonblocking", "in_place", "shifts",
                                              "sleeps",  "probes", "groups",      "mapped"};

std::vector<std::string> Cut::arguments() const {
  std::vector<std::string> result;
  if (steps) {
    std::string list;
    for (const int id : *steps) list += (list.empty() ? "" : ",") + std::to_string(id);
    result.insert(result.end(), {"--steps", list});
  }
  if (ranks > 0) result.insert(result.end(), {"--first-ranks", std::to_string(ranks)});
  if (most_elements > 0) result.insert(result.end(), {"--most", std::to_string(most_elements)});
  std::string features;
  for (const std::string& feature : without) features += (features.empty() ? "" : ",") + feature;
  if (!features.empty()) result.insert(result.end(), {"--without", features});
  return result;
}

namespace {

void cut_counts(Step& step, std::size_t most) {
  step.count = std::min(step.count, most);
  for (std::size_t& count : step.counts) count = std::min(count, most);
  for (Message& message : step.messages) message.count = std::min(message.count, most);
  for (Receive& receive : step.receives) {
    const bool truncates = receive.room < step.messages[receive.message].count;
    receive.room = std::min(receive.room, truncates ? most - std::min<std::size_t>(most, 1) : most);
  }
}

void cut_features(Step& step, const std::set<std::string>& without) {
  if (without.count("rounds") != 0) step.rounds = 1;
  for (Role& role : step.roles) {
    const bool alone = step.action == Action::message && step.messages[0].from == step.messages[0].to;
    if (without.count("nonblocking") != 0 && !alone && step.action != Action::burst && step.action != Action::crowd) {
      role.form = Form::blocking;
    }
    if (without.count("in_place") != 0) role.in_place = false;
    if (without.count("shifts") != 0) role.input_shift = role.output_shift = 0;
    if (without.count("mapped") != 0) role.mapped = false;
    if (without.count("sleeps") != 0) role.sleep_us = 0;
    if (without.count("probes") != 0) role.taking = Taking::recv;
    if (without.count("groups") != 0) role.grouped = false;
  }
}

// Keeps the first `ranks` of the program in every communicator; false where a step is left without those it needs.
bool cut_ranks(Step& step, const Comm& before, int ranks) {
  std::vector<int> moved;  // old rank of the communicator -> new one
  int next = 0;
  for (const int member : before.members) moved.push_back(member < ranks ? next++ : -1);
  if (next == 0) return false;
  const auto size = before.members.size();
  if (!step.counts.empty()) {
    std::vector<std::size_t> counts;
    const bool matrix = step.kind == ANELLO_ALLTOALLV;
    for (std::size_t i = 0; i < step.counts.size(); ++i) {
      const bool kept = matrix ? moved[i / size] >= 0 && moved[i % size] >= 0 : moved[i] >= 0;
      if (kept) counts.push_back(step.counts[i]);
    }
    step.counts = counts;
  }
  std::vector<Role> roles;
  for (std::size_t i = 0; i < size; ++i) {
    if (moved[i] >= 0) roles.push_back(step.roles[i]);
  }
  step.roles = roles;
  step.root %= next;
  step.culprit %= next;
  if (step.messages.empty()) return step.action != Action::shift;
  std::vector<Message> messages;
  std::vector<Receive> receives;
  for (std::size_t m = 0; m < step.messages.size(); ++m) {
    Message message = step.messages[m];
    message.from = moved[std::size_t(message.from)];
    message.to = moved[std::size_t(message.to)];
    if (message.from < 0 || message.to < 0) {
      if (step.action == Action::message || step.action == Action::burst) return false;
      continue;
    }
    messages.push_back(message);
    if (step.action == Action::burst) continue;
    receives.push_back(step.receives[m]);
    receives.back().message = step.action == Action::crowd ? 0 : messages.size() - 1;
  }
  if (step.action == Action::burst) receives = step.receives;
  step.messages = messages;
  step.receives = receives;
  return !messages.empty();
}

void cut_ranks(Program& program, int ranks) {
  if (ranks >= program.size()) return;
  program.order.resize(std::size_t(ranks));
  for (Strand& strand : program.strands) {
    std::vector<Turn> turns;
    std::vector<bool> kept;
    for (Step& step : strand.steps) kept.push_back(cut_ranks(step, program.comms[std::size_t(step.comm)], ranks));
    for (const Turn& turn : strand.turns) {
      if (kept[turn.step]) turns.push_back(turn);
    }
    strand.turns = turns;
  }
  for (Comm& comm : program.comms) std::erase_if(comm.members, [&](int member) { return member >= ranks; });
  for (Strand& strand : program.strands) {
    for (Step& step : strand.steps) {
      for (int& result : step.results) {
        if (result >= 0 && program.comms[std::size_t(result)].members.empty()) result = -1;
      }
    }
  }
}

// A step needs its communicator, and so the step that makes it.
void cut_steps(Program& program, const std::vector<int>& ids) {
  std::set<int> kept(ids.begin(), ids.end());
  std::set<int> comms;
  for (std::size_t k = 0; k < program.strands.size(); ++k) {
    Strand& strand = program.strands[k];
    for (std::size_t i = strand.steps.size(); i-- > 0;) {
      const Step& step = strand.steps[i];
      for (const int result : step.results) {
        if (comms.count(result) != 0) kept.insert(step.id);
      }
      if (kept.count(step.id) != 0) comms.insert(step.comm);
    }
    std::erase_if(strand.turns, [&](const Turn& turn) { return kept.count(strand.steps[turn.step].id) == 0; });
  }
}

}  // namespace

void Cut::apply(Program& program) const {
  for (Strand& strand : program.strands) {
    for (Step& step : strand.steps) {
      if (most_elements > 0) cut_counts(step, most_elements);
      cut_features(step, without);
    }
    if (without.count("rounds") != 0) std::erase_if(strand.turns, [](const Turn& turn) { return turn.round > 0; });
  }
  program.one_after_another = without.count("threads") != 0;
  if (steps) cut_steps(program, *steps);
  if (ranks > 0) cut_ranks(program, ranks);
  // What has no turn is not told of.
  for (Strand& strand : program.strands) {
    std::vector<Step> used;
    std::vector<std::size_t> moved(strand.steps.size(), SIZE_MAX);
    for (Turn& turn : strand.turns) {
      if (moved[turn.step] == SIZE_MAX) {
        moved[turn.step] = used.size();
        used.push_back(strand.steps[turn.step]);
      }
      turn.step = moved[turn.step];
    }
    strand.steps = std::move(used);
  }
}

}  // namespace anello::model
