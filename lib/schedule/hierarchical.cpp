#include "schedule/algorithms.h"
#include "schedule/builder.h"
#include "schedule/hosts.h"
#include "schedule/waves.h"

#include <algorithm>

namespace anello::schedule {

// The vector is cut into columns, as many as the largest host has ranks. On every host each column has an owner; owners of
// one column form a ring across the hosts, so that all ranks' connections are busy and each byte of a sum leaves its host
// once on the way to the sum and once with the result. A column is cut into a block for each host. On host h:
//
//   stage s < hosts     the owner gets block h - s of its column from all ranks of the host and folds it
//   then                step s - 1 of the ring: sends block h - s + 1, folds block h - s, later gets it finished
//   stage s >= hosts    what the last step has brought goes to all ranks of the host
//
// Stages of one chunk follow each other as waves.h has it: while one chunk crosses the network, a later one is folded in
// memory and an earlier one is handed out. Every rank says its steps in the order of (wave, stage), which is why no two of
// them can wait for each other.
namespace {

class Columns {
 public:
  Columns(const Hosts& hosts, const Call& call, std::size_t chunk)
      : hosts_(hosts), columns_(hosts.most()), split_(call.count, columns_ * hosts.count(), chunk) {}

  int count() const { return columns_; }
  // A host with fewer ranks than columns gives its ranks several, as even as can be.
  int owner(int column, int host) const {
    const std::vector<int>& ranks = hosts_.ranks(host);
    return ranks[static_cast<std::size_t>(column) * ranks.size() / static_cast<std::size_t>(columns_)];
  }
  std::size_t chunks() const { return split_.chunks(); }
  Part chunk(int column, int block, std::size_t c) const {
    return split_.chunk(column * hosts_.count() + wrap(block, hosts_.count()), c);
  }

 private:
  const Hosts& hosts_;
  int columns_;
  Split split_;
};

}  // namespace

Schedule hierarchical_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Hosts hosts(topology);
  const Columns columns(hosts, call, chunk);
  const int host = hosts.of(rank);
  const std::vector<int>& locals = hosts.ranks(host);
  const auto others = static_cast<int>(locals.size()) - 1;
  const int self = static_cast<int>(std::lower_bound(locals.begin(), locals.end(), rank) - locals.begin());
  // The local rank d places on: all talk to different ones at a time.
  const auto local = [&](int d) { return locals[static_cast<std::size_t>(wrap(self + d, others + 1))]; };
  Builder steps("hierarchical", call, topology, rank);

  const auto each_column_of = [&](int owner, auto&& visit) {
    for (int column = 0; column < columns.count(); ++column)
      if (columns.owner(column, host) == owner) visit(column);
  };
  const auto fold_in_host = [&](int block, std::size_t c) {
    for (int d = 1; d <= others; ++d)
      each_column_of(local(d), [&](int column) { steps.send(local(d), input(columns.chunk(column, block, c))); });
    for (int d = 1; d <= others; ++d)
      each_column_of(rank, [&](int column) {
        const Part part = columns.chunk(column, block, c);
        steps.recv_reduce(local(-d), output(part), d == 1 ? input(part) : output(part));
      });
  };
  const auto ring_step = [&](int i, std::size_t c) {
    each_column_of(rank, [&](int column) {
      const Part going = columns.chunk(column, host - i, c);
      const Part coming = columns.chunk(column, host - i - 1, c);
      const int next = columns.owner(column, wrap(host + 1, hosts.count()));
      const int prev = columns.owner(column, wrap(host - 1, hosts.count()));
      // What a rank alone on its host has not folded is still where the caller put it.
      const auto sum = [&](Part part) { return others > 0 ? output(part) : input(part); };
      steps.send(next, i == 0 ? sum(going) : output(going));
      if (i + 1 >= hosts.count()) return steps.recv(prev, output(coming));
      steps.recv_reduce(prev, output(coming), sum(coming), Order::reversed);
      if (call.finish && i + 2 == hosts.count()) steps.finish(output(coming), output(coming));
    });
  };
  const auto hand_out = [&](int block, std::size_t c) {
    for (int d = 1; d <= others; ++d) {
      each_column_of(rank, [&](int column) { steps.send(local(d), output(columns.chunk(column, block, c))); });
      each_column_of(local(-d), [&](int column) { steps.recv(local(-d), output(columns.chunk(column, block, c))); });
    }
  };
  in_waves(2 * hosts.count(), columns.chunks(), [&](int stage, std::size_t c) {
    if (stage < hosts.count()) fold_in_host(host - stage, c);
    if (stage > 0 && stage < 2 * hosts.count() - 1) ring_step(stage - 1, c);
    // The step before this stage's brought it: by now it is there, and the next step is on its way.
    if (stage >= hosts.count()) hand_out(host - stage + 1, c);
  });
  return std::move(steps).build();
}

}  // namespace anello::schedule
