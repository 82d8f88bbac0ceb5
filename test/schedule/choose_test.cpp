#include "schedule/choose.h"
#include "schedule_cases.h"
#include "support/catch.h"

#include <algorithm>
#include <bit>
#include <cstdint>

using namespace anello::schedule;

namespace {

Call floats(Collective collective, std::size_t count) {
  Call call = a_call(collective, count);
  call.element_bytes = 4;
  return call;
}

Topology network(int size) {
  Topology topology;
  topology.size = size;
  topology.network = true;
  return topology;
}

Topology unstaged(int size) {
  Topology topology = meeting(size);
  topology.staging_bytes = 0;
  return topology;
}

std::string_view chosen(const Call& call, const Topology& topology, const Wish& wish = {}) {
  return choose(call, topology, wish).algorithm->name;
}

}  // namespace

TEST_CASE("choose always finds a row that fits, and a chunk that bounds the plan") {
  for (const Collective collective : kCollectives)
    for (const int size : {1, 2, 3, 8, 1000})
      for (Call call : calls(collective, 8))
        for (const std::size_t count : {call.count, std::size_t{1} << 18, std::size_t{1} << 30})
          for (const Topology& topology : {meeting(size), network(size)})
            for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20}) {
              if (collective != Collective::barrier) call.count = count;
              const Choice choice = choose(call, topology, {"", chunk_bytes});
              REQUIRE(choice.algorithm != nullptr);
              REQUIRE(choice.algorithm->collective == collective);
              REQUIRE(choice.algorithm->fits(call, topology));
              REQUIRE(choice.chunk >= 1);
              const std::size_t longest =
                  choice.algorithm->cuts_blocks ? call.count / static_cast<std::size_t>(size) + 1 : call.count;
              REQUIRE(longest / choice.chunk <= choice.algorithm->most_chunks);
            }
}

TEST_CASE("the table's first guesses") {
  CHECK(chosen(floats(Collective::allreduce, 2), meeting(4)) == "exchange");
  CHECK(chosen(floats(Collective::allreduce, 1023), meeting(2)) == "exchange");
  CHECK(chosen(floats(Collective::allreduce, 1024), meeting(2)) == "staged");
  CHECK(chosen(floats(Collective::allreduce, 2048), unstaged(2)) == "exchange");
  CHECK(chosen(floats(Collective::allreduce, 2049), unstaged(2)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 2048), meeting(8)) == "exchange");
  CHECK(chosen(floats(Collective::allreduce, 2049), meeting(8)) == "staged");
  CHECK(chosen(floats(Collective::allreduce, 2048), meeting(9)) == "staged");
  CHECK(chosen(floats(Collective::allreduce, 2048), unstaged(9)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 2), network(4)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), meeting(4)) == "staged");
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), unstaged(4)) == "ring");
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), network(4)) == "ring");
  CHECK(chosen(floats(Collective::allreduce, 4096), network(8)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 4097), network(8)) == "halving");
  CHECK(chosen(floats(Collective::allreduce, 1 << 17), network(4)) == "halving");
  CHECK(chosen(floats(Collective::allreduce, (1 << 17) + 1), network(4)) == "ring");
  CHECK(chosen(floats(Collective::allreduce, 1 << 14), network(6)) == "ring");  // not in pairs
  CHECK(chosen(floats(Collective::allreduce, 15 << 10), network(2)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 15 << 10), network(4)) == "halving");
  CHECK(chosen(floats(Collective::allreduce, 1 << 15), network(2)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, (1 << 15) + 1), network(2)) == "ring");
  CHECK(choose(floats(Collective::allreduce, 1 << 17), network(8)).chunk == 8 * 1024);
  CHECK(chosen(floats(Collective::allreduce, 0), network(4)) == "dissemination");
  CHECK(chosen(floats(Collective::allreduce, 0), meeting(4)) == "exchange");
  CHECK(chosen(floats(Collective::broadcast, 1), meeting(4)) == "exchange");
  CHECK(chosen(floats(Collective::broadcast, 1024), meeting(4)) == "tree");
  CHECK(chosen(floats(Collective::barrier, 0), meeting(4)) == "exchange");
  CHECK(chosen(floats(Collective::barrier, 0), network(4)) == "dissemination");
  CHECK(chosen(floats(Collective::allgather, 4096), network(4)) == "doubling");
  CHECK(chosen(floats(Collective::allgather, 4097), network(4)) == "ring");
  CHECK(chosen(floats(Collective::reduce_scatter, 2), network(4)) == "pairwise");
  CHECK(chosen(floats(Collective::reduce_scatter, 2), network(63)) == "pairwise");
  CHECK(chosen(floats(Collective::reduce_scatter, 2), network(64)) == "halving");
  CHECK(chosen(floats(Collective::reduce_scatter, 1 << 11), network(64)) == "halving");
  CHECK(chosen(floats(Collective::reduce_scatter, (1 << 11) + 1), network(64)) == "ring");
  CHECK(chosen(floats(Collective::reduce_scatter, 1 << 10), network(512)) == "halving");
  CHECK(chosen(floats(Collective::reduce_scatter, 1), network(257)) == "ring");  // neither in pairs nor a full mesh
  CHECK(chosen(floats(Collective::scatter, 1 << 11), network(63)) == "direct");
  CHECK(chosen(floats(Collective::allgatherv, (1 << 16) - 1), network(8)) == "direct");  // of all ranks
  CHECK(chosen(floats(Collective::allgatherv, 1 << 16), network(8)) == "ring");
  CHECK(chosen(floats(Collective::allgatherv, 1 << 16), meeting(8)) == "direct");
  for (const int ranks : {64, 512, 4096, 65'536}) {
    CHECK(chosen(floats(Collective::scatter, 16), network(ranks)) == "tree");
    CHECK(chosen(floats(Collective::scatter, (1 << 11) * 8 + 1), network(ranks)) == "direct");
  }
  CHECK(chosen(floats(Collective::scatter, 1 << 11), network(512)) == "tree");
  CHECK(chosen(floats(Collective::allreduce, 5), meeting(1)) == "alone");
  CHECK(choose(floats(Collective::allreduce, 1 << 20), unstaged(4)).chunk == 16 * 1024);
  CHECK(choose(floats(Collective::allreduce, 1 << 20), meeting(4), {"ring", 0}).chunk ==
        16 * 1024);  // the ring's own rule
  CHECK(choose(floats(Collective::allreduce, 1 << 20), network(4)).chunk == 32 * 1024);
  CHECK(choose(floats(Collective::allreduce, 1 << 28), network(4)).chunk == 256 * 1024);
  CHECK(choose(floats(Collective::allreduce, std::size_t{1} << 31), network(4)).chunk ==
        524304);  // at most 1024 a block, aligned
}

TEST_CASE("many ranks do not form a full mesh to reduce") {
  for (const int size : {257, 512, 1000, 4096}) {
    const Topology topology = network(size);
    for (const Collective each : {Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                                  Collective::broadcast, Collective::reduce, Collective::barrier}) {
      for (const std::size_t count : {1, 100, 10'000}) {
        const Call call = floats(each, each == Collective::barrier ? 0 : count);
        const Choice choice = choose(call, topology);
        CAPTURE(name(each), size, count, choice.algorithm->name);
        CHECK(choice.algorithm->make(call, topology, size / 2, choice.chunk).lanes.size() <= 24);
      }
    }
  }
}

TEST_CASE("the library's rules are few, and each has round thresholds and a reason") {
  const auto is_round = [](std::size_t bytes) {
    const std::size_t odd = bytes == 0 || bytes == SIZE_MAX ? 1 : bytes >> std::countr_zero(bytes);
    return odd == 1 || odd == 3;
  };
  CHECK(rules().size() <= 60);
  for (const Rule& rule : rules()) {
    INFO("rule " << &rule - rules().data() + 1);
    CHECK(rule.why.size() >= 20);
    CHECK((is_round(rule.from_bytes) || is_round(rule.from_bytes - 1)));  // the first size above another rule's last
    for (const std::size_t bytes :
         {rule.from_bytes_each, rule.up_to_bytes, rule.up_to_bytes_total, rule.up_to_bytes_each, rule.chunk_bytes})
      CHECK(is_round(bytes));
    CHECK(std::ranges::any_of(kCollectives, [&](Collective each) {
      return rule.collectives.has(each) && find(each, rule.algorithm) != nullptr;
    }));
  }
}

TEST_CASE("over hosts of several ranks the algorithms that know them are preferred, where partial sums may travel") {
  for (const Topology& topology : {in_blocks({4, 4, 3}), round_robin(8, 2)}) {
    CHECK(chosen(floats(Collective::allreduce, 2), topology) == "leaders");
    CHECK(chosen(floats(Collective::allreduce, 4096), topology) == "leaders");
    CHECK(chosen(floats(Collective::allreduce, 4097), topology) == "hierarchical");
    CHECK(chosen(floats(Collective::allreduce, 1 << 20), topology) == "hierarchical");
    CHECK(choose(floats(Collective::allreduce, 1 << 28), topology).chunk * 1024 >= (1u << 28) / topology.size);
    Call sums = floats(Collective::allreduce, 1 << 20);
    sums.accumulate = true;
    CHECK(chosen(sums, topology) == "pairwise");
    CHECK(decide(sums, topology, {"hierarchical", 0}).why.find("does not fit this call") != std::string::npos);
    CHECK(chosen(floats(Collective::allreduce, 0), topology) == "dissemination");
    CHECK(chosen(floats(Collective::broadcast, 1 << 14), topology) == "hierarchical");
    CHECK(chosen(floats(Collective::broadcast, 1 << 13), topology) == "tree");
    CHECK(chosen(floats(Collective::allgather, 1), topology) == "hierarchical");
  }
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), in_blocks({1, 1, 1})) == "ring");
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), in_blocks({1, 1, 1}), {"hierarchical", 0}) == "ring");
  Topology together = meeting(4);
  together.host_of = {0, 0, 0, 0};
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), together) == "staged");
}

TEST_CASE("where ranks over a network share processors, fewer messages come before fewer bytes") {
  const auto crowded = [](int size) {
    Topology topology = network(size);
    topology.oversubscribed = true;
    return topology;
  };
  CHECK(chosen(floats(Collective::allreduce, 2), crowded(4)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 2), crowded(8)) == "tree");
  CHECK(chosen(floats(Collective::allreduce, 1 << 14), crowded(4)) == "doubling");
  CHECK(chosen(floats(Collective::allreduce, 1 << 14), crowded(8)) == "tree");
  CHECK(chosen(floats(Collective::allreduce, 1 << 14), network(8)) == "halving");
  CHECK(chosen(floats(Collective::allreduce, 1 << 16), crowded(8)) == "halving");
  CHECK(chosen(floats(Collective::allreduce, 1 << 16), crowded(4)) == "halving");
  CHECK(chosen(floats(Collective::allreduce, 1 << 18), crowded(4)) == "ring");
  CHECK(chosen(floats(Collective::allreduce, 1 << 18), crowded(8)) == "ring");
  CHECK(chosen(floats(Collective::allgather, 1 << 16), crowded(4)) == "doubling");
  CHECK(chosen(floats(Collective::allgather, 1 << 16), crowded(8)) == "ring");
  CHECK(chosen(floats(Collective::allgather, 1 << 15), crowded(8)) == "doubling");
  CHECK(chosen(floats(Collective::allgather, 2), crowded(5)) == "ring");  // not in pairs
  CHECK(chosen(floats(Collective::reduce_scatter, 1 << 15), crowded(4)) == "halving");
  CHECK(chosen(floats(Collective::reduce_scatter, 1 << 16), crowded(8)) == "ring");
  CHECK(chosen(floats(Collective::reduce_scatter, 1 << 14), crowded(8)) == "halving");
  CHECK(chosen(floats(Collective::reduce_scatter, 2), crowded(5)) == "pairwise");
  // Bound, those of a processor have one of them speak for all.
  Topology bound = crowded(4);
  bound.processors_of = {0, 1, 0, 1};
  CHECK(chosen(floats(Collective::allreduce, 2), bound) == "leaders");
  CHECK(chosen(floats(Collective::allreduce, 1 << 15), bound) == "leaders");
  CHECK(chosen(floats(Collective::allreduce, 1 << 16), bound) == "leaders");
  CHECK(chosen(floats(Collective::allreduce, 1 << 17), bound) == "leaders");
  CHECK(chosen(floats(Collective::allreduce, 1 << 24), bound) == "leaders");
  CHECK(chosen(floats(Collective::reduce, 1 << 19), bound) == "tree");
  CHECK(chosen(floats(Collective::barrier, 0), bound) == "leaders");
  CHECK(chosen(floats(Collective::barrier, 0), crowded(4)) == "dissemination");
  CHECK(chosen(floats(Collective::reduce, 1 << 19), crowded(4)) == "chain");
  CHECK(chosen(floats(Collective::reduce, 1 << 20), bound) == "chain");
  CHECK(chosen(floats(Collective::allgather, 2048), bound) == "leaders");
  CHECK(chosen(floats(Collective::allgather, 2049), bound) == "doubling");
  CHECK(chosen(floats(Collective::reduce_scatter, 1 << 11), bound) == "leaders");
  CHECK(chosen(floats(Collective::reduce_scatter, (1 << 11) + 1), bound) == "halving");
  CHECK(chosen(floats(Collective::alltoall, 1 << 11), bound) == "leaders");
  CHECK(chosen(floats(Collective::alltoall, (1 << 11) + 1), bound) == "pairwise");
  bound.host_of = {0, 1, 2, 3};  // nobody shares memory with another
  CHECK(chosen(floats(Collective::allreduce, 2), bound) == "leaders");
  CHECK(chosen(floats(Collective::barrier, 0), bound) == "leaders");
  bound.oversubscribed = false;
  CHECK(chosen(floats(Collective::allreduce, 2), bound) == "doubling");
  Topology two_hosts = crowded(8);
  two_hosts.host_of = {0, 0, 0, 0, 1, 1, 1, 1};
  CHECK(chosen(floats(Collective::allreduce, 2), two_hosts) == "leaders");
  CHECK(chosen(floats(Collective::allgather, 2), two_hosts) == "hierarchical");
  CHECK(chosen(floats(Collective::allreduce, 1 << 14), two_hosts) == "hierarchical");
  // Each host's ranks share its processors, whichever: that is not to be bound to one of a few.
  two_hosts.processors_of = two_hosts.host_of;
  CHECK(chosen(floats(Collective::reduce, 1 << 18), two_hosts) == "chain");
  CHECK(chosen(floats(Collective::barrier, 0), two_hosts) == "dissemination");
  // Among many processors whole vectors between leaders are more than the rounds of a ring.
  Topology many = crowded(16);
  for (int rank = 0; rank < many.size; ++rank) many.processors_of.push_back(rank % 4);
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), many) == "leaders");
  CHECK(chosen(floats(Collective::reduce, 1 << 18), many) == "tree");
  for (int rank = 0; rank < many.size; ++rank) many.processors_of[std::size_t(rank)] = rank % 8;
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), many) == "ring");
  CHECK(chosen(floats(Collective::reduce, 1 << 18), many) == "chain");
  CHECK(chosen(floats(Collective::barrier, 0), many) == "leaders");
}

TEST_CASE("ranks that share processors reduce among themselves first, where vectors are large") {
  Topology bound = meeting(4);
  bound.staging_bytes = 1 << 21;
  bound.oversubscribed = true;
  CHECK(chosen(floats(Collective::allreduce, 1 << 20), bound) == "staged");
  bound.processors_of = {0, 1, 0, 1};
  CHECK(chosen(floats(Collective::allreduce, 1 << 15), bound) == "staged");
  CHECK(chosen(floats(Collective::allreduce, 1 << 16), bound) == "staged_leaders");
  CHECK(chosen(floats(Collective::allreduce, 1 << 24), bound) == "staged_leaders");
  bound.size = 8;
  bound.processors_of = {0, 1, 0, 1, 0, 1, 0, 1};
  CHECK(chosen(floats(Collective::allreduce, 1 << 15), bound) == "staged");
  CHECK(chosen(floats(Collective::allreduce, 1 << 16), bound) == "staged_leaders");
  // Rounds of four ranks that their processor's cache holds, up to 1 GiB.
  for (int log2 = 16; log2 <= 28; ++log2)
    CHECK(choose(floats(Collective::allreduce, std::size_t{1} << log2), bound).chunk == 16 * 1024);
  CHECK(choose(floats(Collective::allreduce, std::size_t{1} << 29), bound).chunk == 32 * 1024);
  Call all = floats(Collective::allreduce, SIZE_MAX);
  all.element_bytes = 1;
  CHECK(choose(all, bound, {"staged_leaders", 0}).chunk >= SIZE_MAX / (16 * 1024));
}

TEST_CASE("16-bit sums and invariant calls go to algorithms where no partial sum travels") {
  Call call = floats(Collective::allreduce, 1 << 20);
  call.element_bytes = 2;
  call.accumulate = true;
  CHECK(chosen(call, network(4)) == "pairwise");
  CHECK(chosen(call, network(2)) == "ring");  // two inputs, one rounding
  call.finish = true;
  CHECK(chosen(call, network(2)) == "pairwise");  // an average would round twice
  call = floats(Collective::reduce_scatter, 1 << 20);
  CHECK(chosen(call, network(4)) == "ring");
  call.invariant = true;
  CHECK(chosen(call, network(4)) == "pairwise");
  CHECK(chosen(call, network(2)) == "pairwise");
}

TEST_CASE("a wish is followed where it fits and passed over where not") {
  const Call large = floats(Collective::allreduce, 1 << 20);
  CHECK(chosen(large, network(4), {"tree", 0}) == "tree");
  CHECK(chosen(large, network(4), {"allreduce:doubling,broadcast:tree", 0}) == "doubling");
  CHECK(chosen(large, network(4), {"pairwise,allreduce:doubling", 0}) == "doubling");
  CHECK(chosen(large, network(4), {"broadcast:tree", 0}) == "ring");
  CHECK(chosen(large, unstaged(4), {"exchange", 0}) == "ring");  // the board is too small
  CHECK(chosen(floats(Collective::broadcast, 9), network(4), {"ring", 0}) == "tree");
  CHECK(chosen(large, network(4), {"nonsense", 0}) == "ring");
  Call invariant = large;
  invariant.invariant = true;
  CHECK(chosen(invariant, network(4), {"ring", 0}) == "pairwise");
  CHECK(decide(invariant, network(4), {"ring", 0}).why.find("does not fit") != std::string::npos);
  CHECK(choose(large, network(4), {"", 4096}).chunk == 1024);
}

TEST_CASE("where ranks reach each other's buffers, rules that need it come first, and say so") {
  const auto reaching = [](Collective collective, std::size_t count, Reach reach) {
    Call call = floats(collective, count);
    call.reach = reach;
    return call;
  };
  constexpr std::size_t kLarge = 1 << 20;
  CHECK(chosen(reaching(Collective::allreduce, 512, Reach::store), meeting(4)) == "exchange");
  CHECK(chosen(reaching(Collective::allreduce, 513, Reach::store), meeting(4)) == "direct");
  CHECK(chosen(reaching(Collective::allreduce, 512, Reach::store), meeting(2)) == "exchange");
  CHECK(chosen(reaching(Collective::allreduce, 513, Reach::store), meeting(2)) == "direct");
  // Where ranks take turns on their processors, a second barrier costs more than to copy and reduce all.
  Topology crowd = meeting(4);
  crowd.oversubscribed = true;
  CHECK(chosen(reaching(Collective::allreduce, 4096, Reach::store), crowd) == "exchange");
  CHECK(chosen(reaching(Collective::allreduce, 4097, Reach::store), crowd) == "direct");
  CHECK(chosen(floats(Collective::allreduce, 4096), crowd) == "exchange");
  CHECK(chosen(floats(Collective::allreduce, 4097), crowd) == "staged");
  // Of the longer side in all: what each has of an allgather is a fourth.
  for (const auto& [collective, most] :
       {std::pair{Collective::allgather, 4096}, {Collective::alltoall, 1024}, {Collective::reduce_scatter, 1024}}) {
    CHECK(chosen(reaching(collective, std::size_t(most), Reach::store), crowd) == "exchange");
    CHECK(chosen(reaching(collective, std::size_t(most) + 1, Reach::store), crowd) == "direct");
  }
  CHECK(chosen(floats(Collective::alltoall, 1024), crowd) == "exchange");
  CHECK(chosen(floats(Collective::alltoall, 1025), crowd) == "staged");
  // And who has only to send goes on.
  CHECK(chosen(floats(Collective::reduce, 2), meeting(4)) == "exchange");
  CHECK(chosen(floats(Collective::reduce, 12), crowd) == "exchange");
  CHECK(chosen(floats(Collective::reduce, 13), crowd) == "chain");
  CHECK(chosen(floats(Collective::broadcast, 12), crowd) == "exchange");
  CHECK(chosen(floats(Collective::broadcast, 13), crowd) == "tree");
  CHECK(chosen(floats(Collective::gather, 2), crowd) == "tree");
  CHECK(chosen(floats(Collective::scatter, 2), crowd) == "tree");
  CHECK(chosen(reaching(Collective::broadcast, 1 << 13, Reach::store), crowd) == "tree");
  CHECK(chosen(reaching(Collective::broadcast, 1 << 14, Reach::store), crowd) == "direct");
  CHECK(chosen(floats(Collective::broadcast, 1 << 13), crowd) == "tree");
  CHECK(chosen(floats(Collective::broadcast, 1 << 14), crowd) == "staged");
  CHECK(chosen(reaching(Collective::broadcast, 1 << 16, Reach::store), crowd) == "direct");
  CHECK(chosen(reaching(Collective::allreduce, kLarge, Reach::store), meeting(4)) == "direct");
  CHECK(chosen(reaching(Collective::allreduce, kLarge, Reach::read), meeting(4)) == "staged");
  CHECK(chosen(reaching(Collective::allreduce, kLarge, Reach::read), meeting(4), {"attach", 0}) == "attach");
  CHECK(chosen(reaching(Collective::allreduce, 1 << 15, Reach::read), unstaged(4)) == "ring");
  CHECK(chosen(reaching(Collective::reduce, kLarge, Reach::read), meeting(4)) == "staged");
  CHECK(chosen(reaching(Collective::reduce, kLarge, Reach::store), meeting(4)) == "direct");
  // Between two ranks one only gives: up to a line, and a few KiB, it goes on without having met the other. But to
  // threads, who lack nothing that the others announce.
  for (const Collective each : {Collective::reduce, Collective::broadcast}) {
    const bool reduces = each == Collective::reduce;
    CHECK(chosen(floats(each, 12), meeting(2)) == "exchange");
    for (const std::size_t count : {13, 1024}) CHECK(chosen(reaching(each, count, Reach::store), meeting(2)) == "tree");
    CHECK(chosen(floats(each, 4096), meeting(2)) == "tree");
    CHECK(chosen(floats(each, 4097), meeting(2)) == "staged");
    CHECK(chosen(reaching(each, 1025, Reach::store), meeting(2)) == "direct");
    CHECK(chosen(floats(each, 512), unstaged(2)) == "exchange");
    CHECK(chosen(floats(each, 513), unstaged(2)) == (reduces ? "exchange" : "tree"));
    CHECK(chosen(reaching(each, 513, Reach::store), unstaged(2)) == "direct");
  }
  CHECK(chosen(floats(Collective::reduce, 8192), crowd) == "chain");
  CHECK(chosen(floats(Collective::reduce, 8193), crowd) == "staged");
  for (const Collective collective :
       {Collective::broadcast, Collective::allgather, Collective::reduce_scatter, Collective::alltoall}) {
    // By the rules; it would fit. What no reading is timed for is staged.
    CHECK(chosen(reaching(collective, kLarge, Reach::read), meeting(4)) != "direct");
    if (collective != Collective::reduce_scatter)
      CHECK(chosen(reaching(collective, 1 << 14, Reach::read), meeting(2)) == "direct");
    CHECK(chosen(reaching(collective, kLarge, Reach::read), meeting(4), {"direct", 0}) == "direct");
    CHECK(chosen(reaching(collective, kLarge, Reach::store), meeting(4)) == "direct");
    CHECK(chosen(reaching(collective, kLarge, Reach::none), meeting(4)) != "direct");
    CHECK(chosen(reaching(collective, kLarge, Reach::store), network(4)) != "direct");
    CHECK(chosen(reaching(collective, kLarge, Reach::store), meeting(1)) == "alone");
  }
  Call sums = reaching(Collective::allreduce, kLarge, Reach::store);
  sums.accumulate = sums.invariant = sums.finish = true;
  CHECK(chosen(sums, meeting(4)) == "direct");
  const std::string why = decide(sums, meeting(4)).why;
  CHECK(why.find("It needs ranks to load and store each other's buffers") != std::string::npos);

  const Call apart = reaching(Collective::allreduce, kLarge, Reach::none);
  CHECK(chosen(apart, unstaged(4), {"direct", 0}) == "ring");
  CHECK(decide(apart, unstaged(4), {"direct", 0}).why.find("does not fit where ranks cannot reach") !=
        std::string::npos);
  CHECK(chosen(reaching(Collective::allreduce, 8, Reach::store), meeting(4), {"direct", 0}) == "direct");
  CHECK(chosen(reaching(Collective::gather, kLarge, Reach::none), network(4), {"direct", 0}) ==
        "direct");  // by messages
}

TEST_CASE("buffers are announced exactly where an algorithm would use it") {
  for (const Collective collective : kCollectives)
    for (Call call : calls(collective, 4))
      for (const std::size_t count : {call.count, std::size_t{1000}, std::size_t{1} << 20})
        for (const Topology& topology : {meeting(4), network(4), meeting(1)})
          for (const Wish& wish :
               {Wish{}, Wish{"direct", 0}, Wish{"ring,tree,pairwise", 0}, Wish{"allreduce:attach", 0}})
            for (const Reach reach : {Reach::none, Reach::store}) {
              if (collective != Collective::barrier) call.count = count;
              call.reach = reach;
              call.root = std::min(call.root, topology.size - 1);
              INFO(describe(call) << " " << wish.algorithm);
              bool uses = false;
              for (const Reach possible : {Reach::read, Reach::store}) {
                Call reaching = call;
                reaching.reach = possible;
                for (int rank = 0; rank < topology.size && reaching.count < 2000; ++rank) {
                  const Choice choice = choose(reaching, topology, wish);
                  for (const Step& step : choice.algorithm->make(reaching, topology, rank, choice.chunk).steps)
                    uses = uses || step.kind == Kind::barrier;
                }
              }
              if (call.count < 2000) REQUIRE(profits_from_reach(call, topology, wish) == uses);
              Call other = call;
              other.in_place = !call.in_place;
              REQUIRE(profits_from_reach(call, topology, wish) == profits_from_reach(other, topology, wish));
            }
  CHECK(profits_from_reach(floats(Collective::allreduce, 1 << 20), meeting(2)));
  CHECK_FALSE(profits_from_reach(floats(Collective::allreduce, 1), meeting(2)));
  CHECK_FALSE(profits_from_reach(floats(Collective::allreduce, 1 << 20), network(2)));
}

TEST_CASE("why_not names what is wrong with a wish and what there is") {
  CHECK(why_not({"", 0}) == "");
  CHECK(why_not({"ring", 0}) == "");
  CHECK(why_not({"allreduce:ring,broadcast:tree", 0}) == "");
  CHECK(why_not({"rign", 0}).find("'rign'") != std::string::npos);
  CHECK(why_not({"rign", 0}).find("doubling") != std::string::npos);
  CHECK(why_not({"broadcast:ring", 0}).find("broadcast has exchange, direct, central, staged, hierarchical, tree") !=
        std::string::npos);
  CHECK(why_not({"allredcue:ring", 0}).find("'allredcue' is no collective") != std::string::npos);
  CHECK(why_not({"ring,", 0}) == "");
}

TEST_CASE("what the call itself asks for comes before the wish, and the names of what fits are listed") {
  Call call = floats(Collective::allreduce, 1 << 20);
  call.algorithm = "tree";
  CHECK(chosen(call, meeting(4), {"ring", 0}) == "tree");
  CHECK(decide(call, meeting(4), {"ring", 0}).why == "tree was asked for by the call. ");
  CHECK(names_that_fit(call, meeting(4)) == "staged, ring, pairwise, doubling, halving, tree");
  call.accumulate = true;
  CHECK(names_that_fit(call, meeting(4)) == "staged, pairwise");
  CHECK(names_that_fit(call, unstaged(4)) == "pairwise");
  CHECK(names_that_fit(floats(Collective::barrier, 0), network(2)) == "dissemination");
}

TEST_CASE("a collective's algorithms differ in their first eight letters, which a call's record has of them") {
  for (const Algorithm& a : catalog())
    for (const Algorithm& b : catalog())
      if (&a != &b && a.collective == b.collective) CHECK(a.name.substr(0, 8) != b.name.substr(0, 8));
}

TEST_CASE("devices' memory has rules of its own, and what none is for goes through the host") {
  const auto on = [](Space space, Collective collective, std::size_t count) {
    Call call = floats(collective, count);
    call.reach = Reach::store;
    call.space = space;
    return call;
  };
  const auto name = [](const Call& call, const Topology& topology, const Wish& wish = {}) {
    const Algorithm* const row = choose(call, topology, wish).algorithm;
    return row != nullptr ? row->name : "";
  };
  constexpr std::size_t k64 = 16 * 1024, k256 = 64 * 1024, kBig = 1 << 24;  // floats
  CHECK(name(on(Space::devices, Collective::allreduce, k64 - 1), meeting(4)) == "");
  CHECK(name(on(Space::devices, Collective::allreduce, k64), meeting(4)) == "direct");
  for (const Collective each : {Collective::allreduce, Collective::reduce, Collective::allgather})
    CHECK(name(on(Space::one_device, each, 1), meeting(4)) == "central");
  CHECK(name(on(Space::one_device, Collective::broadcast, k64 - 1), meeting(4)) == "");
  CHECK(name(on(Space::one_device, Collective::broadcast, k64), meeting(4)) == "central");
  for (const Collective each : {Collective::broadcast, Collective::reduce, Collective::allgather}) {
    CHECK(name(on(Space::one_device, each, k256), meeting(4)) == "central");
    CHECK(name(on(Space::devices, each, k64), meeting(4)) == "direct");
  }
  // Only a rank knows where its result is to be.
  for (const Collective each : {Collective::reduce_scatter, Collective::alltoall}) {
    CHECK(name(on(Space::one_device, each, k256 / 4), meeting(4)) == "");
    CHECK(name(on(Space::one_device, each, 2 * k256), meeting(4)) == "direct");
  }
  for (const Collective each : {Collective::gather, Collective::scatter, Collective::scan, Collective::barrier})
    for (const Space space : {Space::one_device, Space::devices}) CHECK(name(on(space, each, kBig), meeting(4)) == "");
  // A kernel takes operands of eight ranks.
  CHECK(name(on(Space::devices, Collective::allreduce, k64), meeting(kMostOnDevices)) == "direct");
  CHECK(name(on(Space::devices, Collective::allreduce, k64), meeting(kMostOnDevices + 1)) == "");
  CHECK(name(on(Space::devices, Collective::allreduce, kBig), network(4)) == "");
  // Wishes hold at any size; one for messages is one for the host.
  CHECK(name(on(Space::one_device, Collective::allreduce, 1), meeting(4), {"direct", 0}) == "direct");
  CHECK(name(on(Space::devices, Collective::allreduce, 1), meeting(4), {"central", 0}) == "central");
  CHECK(name(on(Space::devices, Collective::allreduce, kBig), meeting(4), {"ring", 0}) == "");
  CHECK(decide(on(Space::devices, Collective::allreduce, kBig), meeting(4), {"ring", 0}).why.find("through the host") !=
        std::string::npos);
  CHECK(chosen(on(Space::host, Collective::allreduce, kBig), meeting(4)) == "direct");
}
