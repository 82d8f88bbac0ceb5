#include "model/generate.h"

#include "model/generator.h"

#include <algorithm>
#include <numeric>

namespace anello::model {

Program Generator::run() {
  const int jobs = program_.job_ranks;
  const int size = random_.percent(60) ? jobs : 1 + random_.below(jobs);
  program_.order.resize(std::size_t(jobs));
  std::iota(program_.order.begin(), program_.order.end(), 0);
  if (random_.one_in(2)) random_.shuffle(program_.order);
  program_.order.resize(std::size_t(size));
  heavy_ = random_.one_in(16);
  const int strands = random_.percent(60) ? 1 : 2 + random_.below(2);
  Comm base;
  for (int rank = 0; rank < size; ++rank) base.members.push_back(rank);
  for (int k = 0; k < strands; ++k) program_.comms.push_back(base);
  program_.strands.resize(std::size_t(strands));
  const int steps = 4 + random_.below(20);
  for (int k = 0; k < strands; ++k) fill(k, std::max(2, steps / strands));
  return std::move(program_);
}

void Generator::fill(int k, int steps) {
  Strand& strand = program_.strands[std::size_t(k)];
  open_ = {k};
  for (int i = 0; i < steps; ++i) {
    strand.steps.push_back(step());
    strand.steps.back().id = next_id_++;
    for (const int made : strand.steps.back().results) {
      if (made >= 0) open_.push_back(made);
    }
  }
  if (k == 0 && random_.percent(25) && program_.size() > 1) {
    strand.steps.push_back(error(k));
    strand.steps.back().id = next_id_++;
  }
  order(strand);
}

void Generator::order(Strand& strand) {
  struct Place {
    std::size_t at;
    Turn turn;
  };
  std::vector<Place> places;
  const auto destroyed = [&](const Step& step, std::size_t from) {
    for (std::size_t i = from; i < strand.steps.size(); ++i) {
      if (strand.steps[i].action == Action::destroy && strand.steps[i].comm == step.comm) return i;
    }
    return strand.steps.size();
  };
  for (std::size_t i = 0; i < strand.steps.size(); ++i) {
    std::size_t at = i;
    const std::size_t end = destroyed(strand.steps[i], i + 1);
    for (int round = 0; round < strand.steps[i].rounds; ++round) {
      places.push_back({std::min(at, end - (end > i ? 1 : 0)), {i, round}});
      at += random_.below(std::size_t(3));
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.at < b.at; });
  for (const Place& place : places) strand.turns.push_back(place.turn);
}

Step Generator::step() {
  const int choice = random_.below(100);
  Step step;
  step.comm = random_.of(open_);
  step.seed = random_();
  step.roles.resize(size_of(step));
  // All, some or none: a schedule over peers' memory needs all.
  const int mapped = random_.below(4);
  for (Role& role : step.roles) {
    role.mapped = mapped == 0 || (mapped == 1 && random_.one_in(2));
    role.input_shift = random_.one_in(2) ? 0 : random_.below(16);
    role.output_shift = random_.one_in(2) ? 0 : random_.below(16);
    role.sleep_us = random_.percent(4) ? random_.below(2000) : 0;
    role.grouped = random_.one_in(5);
    role.taking = random_.one_in(2) ? Taking::recv : static_cast<Taking>(random_.below(5));
  }
  if (choice < 58) {
    collective(step);
  } else if (choice < 74) {
    message(step);
  } else if (choice < (heavy_ ? 83 : 79)) {
    burst(step);
  } else if (choice < (heavy_ ? 84 : 83)) {
    crowd(step);
  } else if (choice < 87) {
    shift(step);
  } else if (choice < 89) {
    step.action = Action::nobody;
    data(step);
    step.count = count(step, 1) % 1000;
  } else if (choice < 91 || program_.comms.size() > 12) {
    make(step, Action::dup);
  } else if (choice < 93) {
    subset(step);
  } else if (choice < 96) {
    make(step, Action::split);
  } else {
    destroy(step);
  }
  return step;
}

void Generator::subset(Step& step) {
  step.action = Action::subset;
  std::vector<int> members = program_.comms[std::size_t(step.comm)].members;
  random_.shuffle(members);
  members.resize(1 + random_.below(members.size()));
  step.results = {int(program_.comms.size())};
  program_.comms.push_back({members});
}

void Generator::make(Step& step, Action action) {
  step.action = action;
  for (Role& role : step.roles) role.form = random_.one_in(3) ? Form::nonblocking : Form::blocking;
  const std::vector<int> members = program_.comms[std::size_t(step.comm)].members;
  const int colors = action == Action::dup ? 1 : 1 + random_.below(3);
  step.results.assign(std::size_t(colors), -1);
  struct Place {
    int key, rank;
  };
  std::vector<std::vector<Place>> places(static_cast<std::size_t>(colors));
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    Role& role = step.roles[rank];
    role.color = action == Action::split && random_.one_in(6) ? ANELLO_UNDEFINED : random_.below(colors);
    role.key = action == Action::dup ? 0 : random_.below(7) - 3;
    if (role.color >= 0) places[std::size_t(role.color)].push_back({role.key, int(rank)});
  }
  for (std::size_t color = 0; color < places.size(); ++color) {
    std::vector<Place>& chosen = places[color];
    if (chosen.empty()) continue;
    std::stable_sort(chosen.begin(), chosen.end(), [](const Place& a, const Place& b) { return a.key < b.key; });
    Comm comm;
    for (const Place& place : chosen) comm.members.push_back(members[std::size_t(place.rank)]);
    step.results[color] = int(program_.comms.size());
    program_.comms.push_back(comm);
  }
}

void Generator::destroy(Step& step) {
  if (open_.size() < 2) return collective(step);
  // Never the strand's first, on which an error may still be made.
  const std::size_t at = 1 + random_.below(open_.size() - 1);
  step.action = Action::destroy;
  step.comm = open_[at];
  step.roles.resize(size_of(step));
  open_.erase(open_.begin() + std::ptrdiff_t(at));
}

Step Generator::error(int k) {
  Step step;
  step.action = Action::error;
  step.comm = k;
  step.seed = random_();
  step.roles.resize(size_of(step));
  step.fault = static_cast<Fault>(random_.below(11));
  step.culprit = random_.below(int(size_of(step)));
  step.dtype = ANELLO_FLOAT32;
  step.count = 1 + random_.below(random_.one_in(3) ? std::size_t(40'000) : std::size_t(200));
  return step;
}

std::size_t Generator::size_of(const Step& step) const { return program_.comms[std::size_t(step.comm)].members.size(); }

Program generate(std::uint64_t seed, int job_ranks) { return Generator(seed, job_ranks).run(); }

}  // namespace anello::model
