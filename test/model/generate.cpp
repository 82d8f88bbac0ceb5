#include "model/generate.h"

#include "model/random.h"
#include "support/oracle.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anello::model {
namespace {

constexpr std::size_t kLargest = std::size_t(1) << 20;   // bytes of a rank's buffer
constexpr std::size_t kOfAll = std::size_t(3) << 20;     // of most programs, over all ranks
constexpr std::size_t kOfHeavy = std::size_t(48) << 20;  // of a few
constexpr std::size_t kEagerBytes = 4096;                     // a send of that many bytes depends on nobody
constexpr int kFirstOwnTag = 1000;                       // tags that no other step uses

const std::vector<anello_kind_t> kCollectives = {
    ANELLO_ALLREDUCE, ANELLO_BROADCAST, ANELLO_ALLGATHER,  ANELLO_REDUCE_SCATTER_BLOCK, ANELLO_BARRIER,
    ANELLO_REDUCE,    ANELLO_GATHER,    ANELLO_SCATTER,    ANELLO_ALLTOALL,             ANELLO_SCAN,
    ANELLO_EXSCAN,    ANELLO_ALLGATHERV, ANELLO_GATHERV,   ANELLO_SCATTERV,             ANELLO_REDUCE_SCATTER,
    ANELLO_ALLTOALLV, ANELLO_ALLREDUCE};

class Generator {
 public:
  Generator(std::uint64_t seed, int job_ranks) : random_(mix(seed, 1)) {
    program_.seed = seed;
    program_.job_ranks = job_ranks;
  }

  Program run() {
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

 private:
  void fill(int k, int steps) {
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

  // Turns: a step's further rounds come some steps later.
  void order(Strand& strand) {
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

  Step step() {
    const int choice = random_.below(100);
    Step step;
    step.comm = random_.of(open_);
    step.seed = random_();
    step.roles.resize(size_of(step));
    for (Role& role : step.roles) {
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

  std::size_t size_of(const Step& step) const { return program_.comms[std::size_t(step.comm)].members.size(); }

  void data(Step& step) {
    step.dtype = random_.one_in(25) ? ANELLO_ELEMENT(1 + random_.below(300)) : random_.of(dtypes_);
  }
  // Of a reduction: type and operation.
  void operation(Step& step) {
    if (random_.one_in(8)) {
      step.own_op = random_.one_in(3) ? OwnOp::commuting : OwnOp::ordered;
      step.dtype = ANELLO_ELEMENT(random_.of(std::vector<int>{8, 12, 40, 999}));
      return;
    }
    do {
      step.dtype = random_.of(dtypes_);
    } while (test::ops_of(step.dtype).empty());
    do {
      step.op = random_.of(test::ops_of(step.dtype));
    } while (is_prefix(step.kind) && step.op == ANELLO_AVG);
  }

  // As many elements as fill up to 1 MiB, their logarithm evenly distributed, of a buffer that has `parts` of them.
  std::size_t count(const Step& step, std::size_t parts) {
    if (random_.one_in(12)) return 0;
    const double most = std::log2(double(kLargest));
    auto bytes = static_cast<std::size_t>(std::exp2(most * double(random_.below(1001)) / 1000));
    if (heavy_ && random_.one_in(2)) bytes = kLargest;
    const std::size_t share = (heavy_ ? kOfHeavy : kOfAll) / size_of(step);
    bytes = std::min(bytes, std::max<std::size_t>(share > spent_ ? share - spent_ : 0, 512));
    spent_ += bytes;
    std::size_t elements = bytes / anello_dtype_size(step.dtype) / parts;
    if (random_.one_in(8)) elements = std::min<std::size_t>(elements, 1 + random_.below(std::size_t(5)));
    return elements;
  }

  void forms(Step& step) {
    const int rounds = random_.percent(25) ? 2 + random_.below(3) : 1;
    step.rounds = rounds;
    const int kind = random_.below(4);  // all blocking, all not, or each as it likes
    for (Role& role : step.roles) {
      const int dice = random_.below(10);
      if (kind == 0) {
        role.form = Form::blocking;
      } else if (kind == 1) {
        role.form = rounds > 1 ? Form::persistent : Form::nonblocking;
      } else {
        role.form = dice < 4 ? Form::blocking : dice < 8 ? Form::nonblocking : Form::persistent;
      }
    }
  }

  void collective(Step& step) {
    step.action = Action::collective;
    step.kind = random_.of(kCollectives);
    const std::size_t size = size_of(step);
    if (step.kind == ANELLO_BARRIER) return forms(step);
    if (reduces(step.kind)) {
      operation(step);
    } else {
      data(step);
    }
    if (has_roots(step.kind)) step.root = random_.below(int(size));
    const bool one_part = step.kind == ANELLO_ALLREDUCE || step.kind == ANELLO_BROADCAST || step.kind == ANELLO_REDUCE ||
                          is_prefix(step.kind);
    step.count = count(step, one_part ? 1 : size);
    forms(step);
    const int in_place = random_.below(3);  // nobody, all, some
    for (Role& role : step.roles) {
      role.in_place = in_place == 1 || (in_place == 2 && random_.one_in(2));
      role.own_address = random_.one_in(3);
    }
    if (varies(step.kind)) counts(step);
  }

  void counts(Step& step) {
    const std::size_t size = size_of(step);
    const bool matrix = step.kind == ANELLO_ALLTOALLV;
    step.counts.resize(matrix ? size * size : size);
    for (std::size_t& each : step.counts) {
      each = random_.one_in(5) ? 0 : random_.below(2 * step.count + 2);
      if (random_.one_in(6)) each = step.count;
    }
    if (!matrix) return;
    // Where a rank sends from where it receives, what goes each way is alike.
    for (std::size_t a = 0; a < size; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (step.roles[a].in_place || step.roles[b].in_place) step.counts[a * size + b] = step.counts[b * size + a];
      }
    }
  }

  std::size_t room(std::size_t count) { return random_.one_in(3) ? count + 1 + random_.below(std::size_t(40)) : count; }

  void message(Step& step) {
    step.action = Action::message;
    data(step);
    forms(step);
    Message message;
    message.from = random_.below(int(size_of(step)));
    message.to = random_.below(int(size_of(step)));
    message.count = count(step, 1);
    Receive receive;
    receive.room = room(message.count);
    if (message.count > 0 && random_.one_in(15)) receive.room = random_.below(message.count);
    receive.any_source = random_.one_in(4);
    // From any source only what has a tag of its own: else a later message of another rank could be first.
    message.tag = receive.any_source ? kFirstOwnTag + next_id_ : random_.one_in(9) ? (1 << 30) - 1 : random_.below(4);
    receive.tag = !receive.any_source && random_.one_in(3) ? ANELLO_ANY_TAG : message.tag;
    if (message.from == message.to) {
      step.roles[std::size_t(message.from)].form = Form::nonblocking;
      step.rounds = 1;
    }
    step.messages = {message};
    step.receives = {receive};
  }

  // Whether each receive gets a message when each message goes to the first receive that fits it. (Both sides keep their
  // order, so that it comes out so whoever is early.)
  static bool match(const std::vector<Message>& messages, std::vector<Receive>& receives) {
    std::vector<bool> taken(receives.size());
    for (std::size_t m = 0; m < messages.size(); ++m) {
      bool found = false;
      for (std::size_t r = 0; r < receives.size() && !found; ++r) {
        if (taken[r] || (receives[r].tag != ANELLO_ANY_TAG && receives[r].tag != messages[m].tag)) continue;
        taken[r] = found = true;
        receives[r].message = m;
      }
      if (!found) return false;
    }
    return true;
  }

  void burst(Step& step) {
    step.action = Action::burst;
    data(step);
    const int size = int(size_of(step));
    const int from = random_.below(size), to = random_.below(size);
    const bool storm = random_.one_in(4);  // more small ones than the credit lets through at once
    const bool flood = heavy_ && !storm;   // more than sockets hold
    const std::size_t messages = storm ? 150 : flood ? 24 : 2 + random_.below(std::size_t(12));
    for (std::size_t i = 0; i < messages; ++i) {
      Message message{from, to, random_.below(3), 0};
      message.count = storm ? (random_.one_in(5) ? 0 : kEagerBytes / anello_dtype_size(step.dtype)) : count(step, 1);
      if (flood) message.count = kLargest / anello_dtype_size(step.dtype);
      if (!storm && !flood && random_.one_in(2)) message.count = std::min<std::size_t>(message.count, 200);
      step.messages.push_back(message);
      step.receives.push_back({false, message.tag, 0, 0});
    }
    random_.shuffle(step.receives);
    const std::vector<Receive> exact = step.receives;
    for (Receive& receive : step.receives) {
      if (random_.one_in(6)) receive.tag = ANELLO_ANY_TAG;
    }
    if (!match(step.messages, step.receives)) {
      step.receives = exact;
      match(step.messages, step.receives);
    }
    for (Receive& receive : step.receives) receive.room = room(step.messages[receive.message].count);
    for (Role& role : step.roles) role.form = random_.one_in(2) ? Form::blocking : Form::nonblocking;
    if (from == to) step.roles[std::size_t(from)].form = Form::nonblocking;
  }

  void crowd(Step& step) {
    step.action = Action::crowd;
    data(step);
    const int size = int(size_of(step));
    const int to = random_.below(size);
    const bool any_tag = random_.one_in(2);
    const int own_tag = kFirstOwnTag + next_id_;
    std::size_t most = 0;
    for (std::size_t i = 0, messages = 1 + random_.below(std::size_t(10)); i < messages; ++i) {
      const int from = random_.below(size);
      Message message{from, to, any_tag ? random_.below(5) : own_tag, count(step, 1)};
      // Its own are sent before it receives.
      if (from == to) message.count = std::min(message.count, kEagerBytes / anello_dtype_size(step.dtype));
      most = std::max(most, message.count);
      step.messages.push_back(message);
    }
    step.receives.assign(step.messages.size(), {true, any_tag ? ANELLO_ANY_TAG : own_tag, most, 0});
    for (Role& role : step.roles) role.form = random_.one_in(2) ? Form::blocking : Form::nonblocking;
  }

  void shift(Step& step) {
    step.action = Action::shift;
    data(step);
    std::vector<int> to(size_of(step));
    std::iota(to.begin(), to.end(), 0);
    random_.shuffle(to);
    for (std::size_t from = 0; from < to.size(); ++from) {
      if (random_.one_in(6)) continue;  // a hole: nobody
      step.messages.push_back({int(from), to[from], random_.below(4), count(step, 2)});
      step.receives.push_back({false, step.messages.back().tag, room(step.messages.back().count), step.messages.size() - 1});
    }
  }

  // Some of the ranks, in any order.
  void subset(Step& step) {
    step.action = Action::subset;
    std::vector<int> members = program_.comms[std::size_t(step.comm)].members;
    random_.shuffle(members);
    members.resize(1 + random_.below(members.size()));
    step.results = {int(program_.comms.size())};
    program_.comms.push_back({members});
  }

  void make(Step& step, Action action) {
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

  void destroy(Step& step) {
    if (open_.size() < 2) return collective(step);
    // Never the strand's first, on which an error may still be made.
    const std::size_t at = 1 + random_.below(open_.size() - 1);
    step.action = Action::destroy;
    step.comm = open_[at];
    step.roles.resize(size_of(step));
    open_.erase(open_.begin() + std::ptrdiff_t(at));
  }

  Step error(int k) {
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

  Random random_;
  Program program_;
  const std::vector<anello_dtype_t> dtypes_ = test::all_dtypes();
  std::vector<int> open_;  // communicators of the strand
  int next_id_ = 0;
  std::size_t spent_ = 0;
  bool heavy_ = false;
};

}  // namespace

Program generate(std::uint64_t seed, int job_ranks) { return Generator(seed, job_ranks).run(); }

}  // namespace anello::model
