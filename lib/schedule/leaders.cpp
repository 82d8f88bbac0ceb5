#include "schedule/algorithms.h"
#include "schedule/doubling.h"
#include "schedule/hosts.h"

#include <bit>

namespace anello::schedule {

// The lowest rank of each host, or of those that share processors, is their leader.
// A leader folds its ranks' vectors in the order of rank. Leaders alone use the network, or have processors of their own.
Schedule leaders_allreduce(const Call& call, const Topology& topology, int rank, std::size_t chunk) {
  const Hosts hosts = together(topology);
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

// A leader collects its ranks' parts, side by side so that they are one message to each other leader, and hands all out.
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
  // Of a group's ranks from the one with this index on.
  const auto collected = [&](int of_group, std::size_t index, std::size_t ranks) {
    std::size_t before = index;
    for (int earlier = 0; earlier < of_group; ++earlier) before += groups.ranks(earlier).size();
    return Slice{Buffer::scratch, before * call.count, ranks * call.count};
  };
  steps.copy(collected(group, 0, 1), input({0, call.count}));
  for (std::size_t i = 1; i < locals.size(); ++i) steps.recv(locals[i], collected(group, i, 1));
  for (int d = 1; d < groups.count(); ++d) {
    const int above = wrap(group + d, groups.count());
    const int below = wrap(group - d, groups.count());
    steps.send(groups.ranks(above)[0], collected(group, 0, locals.size()));
    steps.recv(groups.ranks(below)[0], collected(below, 0, groups.ranks(below).size()));
  }
  for (int of_group = 0; of_group < groups.count(); ++of_group) {
    const std::vector<int>& ranks = groups.ranks(of_group);
    for (std::size_t i = 0; i < ranks.size(); ++i)
      steps.copy(output({static_cast<std::size_t>(ranks[i]) * call.count, call.count}), collected(of_group, i, 1));
  }
  for (std::size_t i = 1; i < locals.size(); ++i) steps.send(locals[i], output(all));
  return std::move(steps).build();
}

// Tokens go to the leader, on among leaders by rounds of dissemination (dissemination.cpp), and back. Nobody looks at tokens, the
// slices of scratch carry the order alone:
//
//   0               what a leader's ranks bring, one after another
//   1, 2, ..        round k brings k + 1 tokens, to 1 + k and on; what is sent on is all before 1 + k
//
// so that whatever leaves a leader waits for all of its ranks, and for all rounds before.
Schedule leaders_barrier(const Call& call, const Topology& topology, int rank, std::size_t) {
  const Hosts hosts = together(topology);
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
