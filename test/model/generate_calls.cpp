#include "model/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anello::model {
namespace {

constexpr std::size_t kLargest = std::size_t(1) << 20;   // bytes of a rank's buffer
constexpr std::size_t kOfAll = std::size_t(3) << 20;     // of most programs, over all ranks
constexpr std::size_t kOfHeavy = std::size_t(48) << 20;  // of a few
constexpr std::size_t kEagerBytes = 4096;                // a send of that many bytes depends on nobody
constexpr int kFirstOwnTag = 1000;                       // tags that no other step uses

const std::vector<anello_kind_t> kCollectives = {
    ANELLO_ALLREDUCE, ANELLO_BROADCAST, ANELLO_ALLGATHER,      ANELLO_REDUCE_SCATTER_BLOCK,
    ANELLO_BARRIER,   ANELLO_REDUCE,    ANELLO_GATHER,         ANELLO_SCATTER,
    ANELLO_ALLTOALL,  ANELLO_SCAN,      ANELLO_EXSCAN,         ANELLO_ALLGATHERV,
    ANELLO_GATHERV,   ANELLO_SCATTERV,  ANELLO_REDUCE_SCATTER, ANELLO_ALLTOALLV,
    ANELLO_ALLREDUCE};

}  // namespace

void Generator::data(Step& step) {
  step.dtype = random_.one_in(25) ? ANELLO_ELEMENT(1 + random_.below(300)) : random_.of(dtypes_);
}

void Generator::operation(Step& step) {
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

std::size_t Generator::count(const Step& step, std::size_t parts) {
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

void Generator::forms(Step& step) {
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

void Generator::collective(Step& step) {
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

void Generator::counts(Step& step) {
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

std::size_t Generator::room(std::size_t count) {
  return random_.one_in(3) ? count + 1 + random_.below(std::size_t(40)) : count;
}

void Generator::message(Step& step) {
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

bool Generator::match(const std::vector<Message>& messages, std::vector<Receive>& receives) {
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

void Generator::burst(Step& step) {
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

void Generator::crowd(Step& step) {
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

void Generator::shift(Step& step) {
  step.action = Action::shift;
  data(step);
  std::vector<int> to(size_of(step));
  std::iota(to.begin(), to.end(), 0);
  random_.shuffle(to);
  for (std::size_t from = 0; from < to.size(); ++from) {
    if (random_.one_in(6)) continue;  // a hole: nobody
    step.messages.push_back({int(from), to[from], random_.below(4), count(step, 2)});
    step.receives.push_back(
        {false, step.messages.back().tag, room(step.messages.back().count), step.messages.size() - 1});
  }
  for (Role& role : step.roles) role.form = static_cast<Form>(random_.below(3));
}

}  // namespace anello::model
