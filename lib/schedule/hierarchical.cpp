#include "schedule/algorithms.h"
#include "schedule/builder.h"
#include "schedule/hosts.h"
#include "schedule/waves.h"

namespace anello::schedule {

// The vector is cut into as many columns as the largest host has ranks. On every host each column has an owner. The
// owners of one column form a ring across the hosts, so all ranks' connections are busy, and each byte leaves its host
// once as a partial sum and once as a result. A column is cut into a block for each host. On host h:
//
//   stage s < hosts     the owner gets block h - s of its column from all ranks of the host and reduces it
//   then                step s - 1 of the ring: sends block h - s + 1, reduces block h - s, later gets it finished
//   stage s >= hosts    the block that the last step has brought goes to all ranks of the host
//
// Stages of one chunk follow each other as described in waves.h: while one chunk crosses the network, a later one is
// reduced in memory and an earlier one is distributed. Every rank adds its steps in the order of (wave, stage), so no
// two ranks can wait for each other.
namespace {

class Columns {
 public:
  Columns(const Hosts& hosts, const Call& call, std::size_t chunk)
      : hosts_(hosts), columns_(hosts.most()), split_(call.count, columns_ * hosts.count(), chunk) {}

  int count() const { return columns_; }
  // A host with fewer ranks than columns gives its ranks several columns, as evenly as possible.
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
  const auto known = together(topology);
  const Hosts& hosts = *known;
  const Columns columns(hosts, call, chunk);
  const int host = hosts.of(rank);
  const Locals locals(hosts, rank);
  Builder steps("hierarchical", call, topology, rank);

  const auto each_column_of = [&](int owner, auto&& visit) {
    for (int column = 0; column < columns.count(); ++column)
      if (columns.owner(column, host) == owner) visit(column);
  };
  const auto reduce_in_host = [&](int block, std::size_t c) {
    for (int d = 1; d <= locals.others(); ++d)
      each_column_of(locals.at(d),
                     [&](int column) { steps.send(locals.at(d), input(columns.chunk(column, block, c))); });
    for (int d = 1; d <= locals.others(); ++d)
      each_column_of(rank, [&](int column) {
        const Part part = columns.chunk(column, block, c);
        steps.recv_reduce(locals.at(-d), output(part), d == 1 ? input(part) : output(part));
      });
  };
  const auto ring_step = [&](int i, std::size_t c) {
    each_column_of(rank, [&](int column) {
      const Part going = columns.chunk(column, host - i, c);
      const Part coming = columns.chunk(column, host - i - 1, c);
      const int next = columns.owner(column, wrap(host + 1, hosts.count()));
      const int prev = columns.owner(column, wrap(host - 1, hosts.count()));
      // A rank that is alone on its host reduces nothing here: its data is still where the caller put it.
      const auto sum = [&](Part part) { return locals.others() > 0 ? output(part) : input(part); };
      steps.send(next, i == 0 ? sum(going) : output(going));
      if (i + 1 >= hosts.count()) return steps.recv(prev, output(coming));
      steps.recv_reduce(prev, output(coming), sum(coming), Order::reversed);
      if (call.finish && i + 2 == hosts.count()) steps.finish(output(coming), output(coming));
    });
  };
  const auto hand_out = [&](int block, std::size_t c) {
    for (int d = 1; d <= locals.others(); ++d) {
      each_column_of(rank, [&](int column) { steps.send(locals.at(d), output(columns.chunk(column, block, c))); });
      each_column_of(locals.at(-d),
                     [&](int column) { steps.recv(locals.at(-d), output(columns.chunk(column, block, c))); });
    }
  };
  in_waves(2 * hosts.count(), columns.chunks(), [&](int stage, std::size_t c) {
    if (stage < hosts.count()) reduce_in_host(host - stage, c);
    if (stage > 0 && stage < 2 * hosts.count() - 1) ring_step(stage - 1, c);
    // The step before this stage's step brought it: it has arrived by now, and the next step is in flight.
    if (stage >= hosts.count()) hand_out(host - stage + 1, c);
  });
  return std::move(steps).build();
}

// Ranks with the same index on their hosts form a ring; if a host has fewer ranks, one of its ranks is in several
// rings. Each rank sends its own part, and everything that the ring brings, to the other ranks of its host.
Schedule hierarchical_allgather(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const auto known = hosts_of(topology);
  const Hosts& hosts = *known;
  const int host = hosts.of(rank);
  const Locals locals(hosts, rank);
  const Split split(call.count * static_cast<std::size_t>(topology.size), topology.size, chunk);
  Builder steps("hierarchical", call, topology, rank);

  const auto in_ring = [&](int index, int of_host) {
    const std::vector<int>& ranks = hosts.ranks(wrap(of_host, hosts.count()));
    return ranks[static_cast<std::size_t>(index) % ranks.size()];
  };
  // The rank of that host whose part goes around ring `index`; a host with fewer ranks has none for the last rings.
  const auto part_of = [&](int index, int of_host, std::size_t c) {
    const std::vector<int>& ranks = hosts.ranks(wrap(of_host, hosts.count()));
    if (static_cast<std::size_t>(index) >= ranks.size()) return Part{};
    return split.chunk(ranks[static_cast<std::size_t>(index)], c);
  };
  const auto each_ring_of = [&](int member, auto&& visit) {
    for (int index = 0; index < hosts.most(); ++index)
      if (in_ring(index, host) == member) visit(index);
  };
  const auto what = [&](Part part, bool own) {
    return own ? input({part.offset % call.count, part.count}) : output(part);
  };
  in_waves(hosts.count(), split.chunks(), [&](int stage, std::size_t c) {
    if (stage > 0)
      each_ring_of(rank, [&](int index) {
        steps.send(in_ring(index, host + 1), what(part_of(index, host - stage + 1, c), stage == 1));
        steps.recv(in_ring(index, host - 1), output(part_of(index, host - stage, c)));
      });
    for (int d = 1; d <= locals.others(); ++d) {
      each_ring_of(rank,
                   [&](int index) { steps.send(locals.at(d), what(part_of(index, host - stage, c), stage == 0)); });
      each_ring_of(locals.at(-d),
                   [&](int index) { steps.recv(locals.at(-d), output(part_of(index, host - stage, c))); });
    }
  });
  steps.copy(output(split.block(rank)), input({0, call.count}));
  return std::move(steps).build();
}

// The root sends each column to its first owner, chunk by chunk. The column goes from host to host along a chain of its
// owners, and in each host from the owner to all ranks.
Schedule hierarchical_broadcast(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const auto known = hosts_of(topology);
  const Hosts& hosts = *known;
  const int host = hosts.of(rank);
  const int first = hosts.of(call.root);
  const int last = wrap(first - 1, hosts.count());
  const Locals locals(hosts, rank);
  const Columns columns(hosts, call, chunk);
  Builder steps("hierarchical", call, topology, rank);

  for (std::size_t c = 0; c < columns.chunks(); ++c)
    for (int column = 0; column < columns.count(); ++column)
      for (int block = 0; block < hosts.count(); ++block) {
        const Slice slice = output(columns.chunk(column, block, c));
        const int owner = columns.owner(column, host);
        // On its own host the root has the whole vector: the owner gets the column from it, and so do the others.
        const int source = host == first ? call.root : columns.owner(column, wrap(host - 1, hosts.count()));
        if (rank == owner && rank != call.root) steps.recv(source, slice);
        if (rank == call.root && rank != owner) steps.send(owner, slice);
        if (rank == owner && host != last) steps.send(columns.owner(column, wrap(host + 1, hosts.count())), slice);
        for (int d = 1; d <= locals.others() && rank == owner; ++d)
          if (locals.at(d) != call.root) steps.send(locals.at(d), slice);
        if (rank != owner && rank != call.root) steps.recv(owner, slice);
      }
  return std::move(steps).build();
}

}  // namespace anello::schedule
