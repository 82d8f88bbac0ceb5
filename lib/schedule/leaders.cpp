#include "schedule/algorithms.h"
#include "schedule/doubling.h"
#include "schedule/hosts.h"

#include <bit>

namespace anello::schedule {

// The lowest rank of each host, or of those that share processors, is their leader.
// A leader reduces its ranks' vectors in rank order. Only leaders use the network, or communicate between processors.
Schedule leaders_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const auto known = together(topology);
  const Hosts& hosts = *known;
  const std::vector<int>& locals = hosts.ranks(hosts.of(rank));
  const Split split(call.count, 1, chunk);
  Builder steps("leaders", call, topology, rank);

  const auto each_chunk = [&](auto&& add) {
    for (std::size_t c = 0; c < split.chunks(); ++c) add(split.chunk(0, c));
  };
  if (rank != locals[0]) {
    each_chunk([&](Part part) { steps.send(locals[0], input(part)); });
    each_chunk([&](Part part) { steps.recv(locals[0], output(part)); });
    return std::move(steps).build();
  }
  each_chunk([&](Part part) {
    for (std::size_t i = 1; i < locals.size(); ++i)
      steps.recv_reduce(locals[i], output(part), i == 1 ? input(part) : output(part));
  });
  std::vector<int> leaders;
  for (int host = 0; host < hosts.count(); ++host) leaders.push_back(hosts.ranks(host)[0]);
  double_up(steps, call, split, leaders, rank, locals.size() > 1 ? Buffer::output : Buffer::input);
  each_chunk([&](Part part) {
    for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], output(part));
  });
  return std::move(steps).build();
}

namespace {

// The places of ranks' parts in a scratch buffer. The parts of each group are adjacent, and the groups are in order.
class SideBySide {
 public:
  SideBySide(const Hosts& groups, std::size_t part) : groups_(groups), part_(part) {}

  // The parts of `ranks` ranks of a group, from the one with this index on.
  Slice at(int group, std::size_t index, std::size_t ranks) const {
    std::size_t before = index;
    for (int earlier = 0; earlier < group; ++earlier) before += groups_.ranks(earlier).size();
    return {Buffer::scratch, before * part_, ranks * part_};
  }
  Slice all_of(int group) const { return at(group, 0, groups_.ranks(group).size()); }

 private:
  const Hosts& groups_;
  std::size_t part_;
};

}  // namespace

// A leader collects its ranks' parts in one place, so that they are one message to each other leader, and distributes
// all parts.
Schedule leaders_allgather(const Call& call, const Topology& topology, int rank, std::size_t) {
  const Hosts groups(topology.processors_of);
  const int group = groups.of(rank);
  const std::vector<int>& locals = groups.ranks(group);
  const Part all{0, call.count * static_cast<std::size_t>(topology.size)};
  Builder steps("leaders", call, topology, rank);
  if (rank != locals[0]) {
    steps.send(locals[0], input({0, call.count}));
    steps.recv(locals[0], output(all));
    return std::move(steps).build();
  }
  const SideBySide collected(groups, call.count);
  steps.copy(collected.at(group, 0, 1), input({0, call.count}));
  for (std::size_t i = 1; i < locals.size(); ++i) steps.recv(locals[i], collected.at(group, i, 1));
  for (int d = 1; d < groups.count(); ++d) {
    const int above = wrap(group + d, groups.count());
    const int below = wrap(group - d, groups.count());
    steps.send(groups.ranks(above)[0], collected.all_of(group));
    steps.recv(groups.ranks(below)[0], collected.all_of(below));
  }
  for (int of_group = 0; of_group < groups.count(); ++of_group) {
    const std::vector<int>& ranks = groups.ranks(of_group);
    for (std::size_t i = 0; i < ranks.size(); ++i)
      steps.copy(output({static_cast<std::size_t>(ranks[i]) * call.count, call.count}), collected.at(of_group, i, 1));
  }
  for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], output(all));
  return std::move(steps).build();
}

// A leader reduces its ranks' vectors and sends each other leader the parts of this sum for that leader's ranks, as one
// message. It reduces the sums that it receives and sends each rank its part. The scratch buffer holds the sum, with
// the parts of each group's ranks adjacent, and after it the received data.
Schedule leaders_reduce_scatter(const Call& call, const Topology& topology, int rank, std::size_t) {
  const Hosts groups(topology.processors_of);
  const int group = groups.of(rank);
  const std::vector<int>& locals = groups.ranks(group);
  const Part all{0, call.count * static_cast<std::size_t>(topology.size)};
  const Part own{0, call.count};
  Builder steps("leaders", call, topology, rank);
  if (rank != locals[0]) {
    steps.send(locals[0], input(all));
    steps.recv(locals[0], output(own));
    return std::move(steps).build();
  }
  const SideBySide sum(groups, call.count);
  const Slice reduced{Buffer::scratch, all.count, all.count};
  for (std::size_t i = 1; i < locals.size(); ++i) steps.recv_reduce(locals[i], reduced, i == 1 ? input(all) : reduced);
  for (int of_group = 0; of_group < groups.count(); ++of_group) {
    const std::vector<int>& ranks = groups.ranks(of_group);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Part part{static_cast<std::size_t>(ranks[i]) * call.count, call.count};
      const Slice as_folded{Buffer::scratch, reduced.offset + part.offset, part.count};
      steps.copy(sum.at(of_group, i, 1), locals.size() > 1 ? as_folded : input(part));
    }
  }
  for (int d = 1; d < groups.count(); ++d) {
    const int above = wrap(group + d, groups.count());
    steps.send(groups.ranks(above)[0], sum.all_of(above));
    steps.recv_reduce(groups.ranks(wrap(group - d, groups.count()))[0], sum.all_of(group), sum.all_of(group));
  }
  if (call.finish) steps.finish(sum.all_of(group), sum.all_of(group));
  for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], sum.at(group, i, 1));
  steps.copy(output(own), sum.at(group, 0, 1));
  return std::move(steps).build();
}

// A leader holds its ranks' vectors and their results, both whole. It sends each other leader one message, which has,
// for each of its own ranks, a part for each of the other leader's ranks.
Schedule leaders_alltoall(const Call& call, const Topology& topology, int rank, std::size_t) {
  const Hosts groups(topology.processors_of);
  const int group = groups.of(rank);
  const std::vector<int>& locals = groups.ranks(group);
  const auto size = static_cast<std::size_t>(topology.size);
  const Part all{0, call.count * size};
  Builder steps("leaders", call, topology, rank);
  if (rank != locals[0]) {
    steps.send(locals[0], input(all));
    steps.recv(locals[0], output(all));
    return std::move(steps).build();
  }
  // The regions of scratch, one after the other, in parts.
  std::size_t used = 0;
  const auto take = [&](std::size_t parts) { return used += parts, used - parts; };
  const auto parts = [&](std::size_t from, std::size_t count) {
    return Slice{Buffer::scratch, from * call.count, count * call.count};
  };
  const std::size_t given = take(locals.size() * size);
  const std::size_t got = take(locals.size() * size);
  const auto part = [&](std::size_t vectors, std::size_t local, int other) {
    return parts(vectors + local * size + static_cast<std::size_t>(other), 1);
  };

  steps.copy(parts(given, size), input(all));
  for (std::size_t i = 1; i < locals.size(); ++i) steps.recv(locals[i], parts(given + i * size, size));
  for (int d = 1; d < groups.count(); ++d) {
    const std::vector<int>& above = groups.ranks(wrap(group + d, groups.count()));
    const std::size_t going = take(locals.size() * above.size());
    for (std::size_t i = 0; i < locals.size(); ++i)
      for (std::size_t j = 0; j < above.size(); ++j)
        steps.copy(parts(going + i * above.size() + j, 1), part(given, i, above[j]));
    steps.send(above[0], parts(going, locals.size() * above.size()));
  }
  for (std::size_t i = 0; i < locals.size(); ++i)
    for (std::size_t j = 0; j < locals.size(); ++j) steps.copy(part(got, i, locals[j]), part(given, j, locals[i]));
  for (int d = 1; d < groups.count(); ++d) {
    const std::vector<int>& below = groups.ranks(wrap(group - d, groups.count()));
    const std::size_t coming = take(below.size() * locals.size());
    steps.recv(below[0], parts(coming, below.size() * locals.size()));
    for (std::size_t i = 0; i < locals.size(); ++i)
      for (std::size_t j = 0; j < below.size(); ++j)
        steps.copy(part(got, i, below[j]), parts(coming + j * locals.size() + i, 1));
  }
  for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], parts(got + i * size, size));
  steps.copy(output(all), parts(got, size));
  return std::move(steps).build();
}

// Tokens go to the leader, then among leaders by rounds of dissemination (dissemination.cpp), and back. The contents of
// tokens do not matter; only the slices of scratch carry the order:
//
//   0               the tokens of a leader's ranks, one after another
//   1, 2, ..        round k brings k + 1 tokens, to 1 + k and on; the leader sends all before 1 + k
//
// so everything that a leader sends waits for all of its ranks and for all earlier rounds.
Schedule leaders_barrier(const Call& call, const Topology& topology, int rank, std::size_t) {
  const auto known = together(topology);
  const Hosts& hosts = *known;
  const int host = hosts.of(rank);
  const std::vector<int>& locals = hosts.ranks(host);
  Builder steps("leaders", call, topology, rank);
  const auto tokens = [](std::size_t from, std::size_t count) { return Slice{Buffer::scratch, from, count}; };
  const auto rounds = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(hosts.count() - 1)));
  if (rank != locals[0]) {
    steps.send(locals[0], tokens(0, 1));
    steps.recv(locals[0], tokens(1, rounds + 1));
    return std::move(steps).build();
  }
  for (std::size_t i = 1; i < locals.size(); ++i) steps.recv(locals[i], tokens(0, 1));
  for (std::size_t k = 0; k < rounds; ++k) {
    steps.send(hosts.ranks(wrap(host + (1 << k), hosts.count()))[0], tokens(0, k + 1));
    steps.recv(hosts.ranks(wrap(host - (1 << k), hosts.count()))[0], tokens(k + 1, k + 1));
  }
  for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], tokens(0, rounds + 1));
  return std::move(steps).build();
}

}  // namespace anello::schedule
