#include "base/error.h"
#include "schedule/access_map.h"
#include "schedule/builder.h"
#include "support/catch.h"

#include <algorithm>
#include <utility>

using namespace anello;
using namespace anello::schedule;

namespace {

Call allreduce_of(std::size_t count, bool in_place = false) {
  Call call;
  call.collective = Collective::allreduce;
  call.count = count;
  call.element_bytes = 4;
  call.in_place = in_place;
  return call;
}

Topology ranks(int size) {
  Topology topology;
  topology.size = size;
  return topology;
}

Slice out(std::size_t offset, std::size_t count) { return {Buffer::output, offset, count}; }
Slice in(std::size_t offset, std::size_t count) { return {Buffer::input, offset, count}; }
Slice scratch(std::size_t offset, std::size_t count) { return {Buffer::scratch, offset, count}; }

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
Edges edges(const Schedule& schedule) {
  Edges result;
  for (std::uint32_t s = 0; s < schedule.steps.size(); ++s)
    for (std::uint32_t f = schedule.follower_begin[s]; f < schedule.follower_begin[s + 1]; ++f)
      result.emplace_back(s, schedule.followers[f]);
  return result;
}

}  // namespace

TEST_CASE("a step waits for the writers of what it reads, and only for them") {
  Builder builder("test", allreduce_of(12), ranks(3), 0);
  builder.recv(1, out(0, 4));
  builder.recv(1, out(4, 4));
  builder.recv(1, out(8, 4));
  builder.send(2, out(2, 4));
  const Schedule schedule = std::move(builder).build();
  CHECK(edges(schedule) == Edges{{0, 3}, {1, 3}});
  CHECK(schedule.waits == std::vector<std::uint32_t>{0, 0, 0, 2});
}

TEST_CASE("a write waits for the readers since the last write, or else for that write") {
  Builder builder("test", allreduce_of(8), ranks(3), 0);
  builder.recv(1, out(0, 8));
  builder.send(2, out(0, 4));
  builder.recv(1, out(0, 8));
  const Schedule schedule = std::move(builder).build();
  CHECK(edges(schedule) == Edges{{0, 1}, {0, 2}, {1, 2}});
}

TEST_CASE("a step that overwrites what it reads does not wait for itself") {
  Builder builder("test", allreduce_of(4), ranks(2), 0);
  builder.recv_reduce(1, out(0, 4), in(0, 4));
  builder.recv_reduce(1, out(0, 4), out(0, 4));
  builder.reduce(out(0, 4), in(0, 4));
  builder.finish(out(0, 4), out(0, 4));
  CHECK(edges(std::move(builder).build()) == Edges{{0, 1}, {1, 2}, {2, 3}});
}

TEST_CASE("an edge is stated once however many intervals ask for it") {
  Builder builder("test", allreduce_of(8), ranks(2), 0);
  builder.recv(1, out(0, 8));
  builder.send(1, out(2, 2));
  builder.send(1, out(5, 2));
  builder.copy(scratch(0, 8), out(0, 8));
  CHECK(edges(std::move(builder).build()) == Edges{{0, 1}, {0, 2}, {0, 3}});
}

TEST_CASE("in place the input is the output, and a write to it waits for its reader") {
  Builder builder("test", allreduce_of(4, true), ranks(2), 0);
  builder.send(1, in(0, 4));
  builder.recv(1, out(0, 4));
  const Schedule schedule = std::move(builder).build();
  CHECK(schedule.steps[0].from == out(0, 4));
  CHECK(edges(schedule) == Edges{{0, 1}});

  Call gather = allreduce_of(4, true);
  gather.collective = Collective::allgather;
  Builder third("test", gather, ranks(4), 2);
  CHECK(third.resolve(in(1, 2)) == out(9, 2));
  third.copy(out(8, 4), in(0, 4));
  CHECK(std::move(third).build().steps.empty());
}

TEST_CASE("messages of zero elements vanish, an exchange of zero elements stays") {
  Builder builder("test", allreduce_of(0), ranks(2), 0);
  builder.send(1, in(0, 0));
  builder.recv(1, out(0, 0));
  builder.recv_reduce(1, out(0, 0), in(0, 0));
  builder.exchange(out(0, 0), in(0, 0));
  const Schedule schedule = std::move(builder).build();
  REQUIRE(schedule.steps.size() == 1);
  CHECK(schedule.steps[0].kind == Kind::exchange);
  CHECK(schedule.lanes.empty());
}

TEST_CASE("lanes come by rising peer, their steps in program order") {
  Builder builder("test", allreduce_of(4), ranks(4), 1);
  builder.send(3, in(0, 4));
  builder.recv(0, out(0, 4));
  builder.send(0, in(0, 2));
  builder.send(3, in(0, 1));
  builder.recv_reduce(3, out(0, 1), out(0, 1));
  const Schedule schedule = std::move(builder).build();
  REQUIRE(schedule.lanes.size() == 2);
  CHECK(schedule.lanes[0].peer == 0);
  CHECK(schedule.lanes[0].sends == std::vector<std::uint32_t>{2});
  CHECK(schedule.lanes[0].receives == std::vector<std::uint32_t>{1});
  CHECK(schedule.lanes[1].peer == 3);
  CHECK(schedule.lanes[1].sends == std::vector<std::uint32_t>{0, 3});
  CHECK(schedule.lanes[1].receives == std::vector<std::uint32_t>{4});
}

TEST_CASE("private buffers are as large as the slices reach") {
  Builder builder("test", allreduce_of(8), ranks(2), 0);
  builder.copy(scratch(3, 4), in(0, 4));
  builder.copy(Slice{Buffer::accumulator, 1, 2}, in(0, 2));
  const Schedule schedule = std::move(builder).build();
  CHECK(schedule.scratch == 7);
  CHECK(schedule.accumulator == 3);
}

TEST_CASE("what an algorithm got wrong is refused") {
  Builder builder("test", allreduce_of(8), ranks(2), 0);
  CHECK_THROWS_AS(builder.send(1, in(5, 4)), Error);
  CHECK_THROWS_AS(builder.send(2, in(0, 4)), Error);
  CHECK_THROWS_AS(builder.send(0, in(0, 4)), Error);
  CHECK_THROWS_AS(builder.recv(1, in(0, 4)), Error);
  CHECK_THROWS_AS(builder.copy(out(0, 4), in(0, 3)), Error);
  CHECK_THROWS_AS(builder.send(1, Slice{Buffer::accumulator, 0, 1}), Error);
}

TEST_CASE("intervals give the same dependencies as an element-wise record") {
  struct Element {
    std::uint32_t writer = UINT32_MAX;
    std::vector<std::uint32_t> readers;
  };
  std::uint64_t random = 12345;
  const auto below = [&](std::size_t n) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(random >> 33) % n;
  };
  const auto sorted = [](std::vector<std::uint32_t> steps) {
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    return steps;
  };
  AccessMap map;
  std::vector<Element> elements(40);
  for (std::uint32_t step = 0; step < 3000; ++step) {
    const std::size_t begin = below(39);
    const std::size_t end = begin + 1 + below(40 - begin);
    const bool writes = below(3) == 0;
    std::vector<std::uint32_t> expected;
    std::vector<std::uint32_t> got;
    for (std::size_t i = begin; i < end; ++i) {
      Element& element = elements[i];
      if (writes && !element.readers.empty())
        expected.insert(expected.end(), element.readers.begin(), element.readers.end());
      else if (element.writer != UINT32_MAX)
        expected.push_back(element.writer);
      if (writes)
        element = {step, {}};
      else
        element.readers.push_back(step);
    }
    if (writes) {
      map.before_write(begin, end, got);
      map.write(begin, end, step);
    } else {
      map.before_read(begin, end, got);
      map.read(begin, end, step);
    }
    REQUIRE(sorted(got) == sorted(expected));
  }
}

namespace {

Call reaching(Reach reach, bool in_place = false) {
  Call call = allreduce_of(12, in_place);
  call.reach = reach;
  return call;
}
Slice of(int owner, Slice slice) {
  slice.owner = owner;
  return slice;
}

}  // namespace

TEST_CASE("a barrier waits for all since the last one, and all until the next one wait for it") {
  Builder builder("test", reaching(Reach::store), ranks(3), 0);
  builder.copy(out(0, 4), of(1, in(0, 4)));   // 0
  builder.copy(out(4, 4), of(2, in(4, 4)));   // 1
  builder.barrier();                          // 2
  builder.barrier();                          // 3
  builder.copy(out(0, 4), of(1, out(0, 4)));  // 4
  builder.copy(out(0, 2), scratch(0, 2));     // 5
  CHECK(edges(std::move(builder).build()) == Edges{{0, 2}, {1, 2}, {2, 3}, {3, 4}, {3, 5}, {4, 5}});
}

TEST_CASE("steps on one peer's buffer keep their order where one writes, whether the peer is in place or not") {
  Builder builder("test", reaching(Reach::store, true), ranks(3), 0);
  builder.copy(scratch(0, 4), of(1, in(0, 4)));                     // 0
  builder.copy(of(1, out(2, 4)), scratch(4, 4));                    // 1: may be what step 0 read
  builder.copy(of(2, out(2, 4)), scratch(4, 4));                    // 2: another rank's
  builder.copy(scratch(8, 1), of(1, out(5, 1)));                    // 3: after 1
  builder.reduce_ranks(of(kEach, out(5, 2)), of(kEach, in(5, 2)));  // 4: after 3, and 2
  builder.copy(scratch(9, 1), out(6, 1));                           // 5: this rank's part of 4
  const Schedule schedule = std::move(builder).build();
  CHECK(edges(schedule) == Edges{{0, 1}, {1, 3}, {1, 4}, {2, 4}, {3, 4}, {4, 5}});
}

TEST_CASE("a slice of a peer that is this rank itself is its own") {
  Builder builder("test", reaching(Reach::read, true), ranks(3), 2);
  builder.copy(scratch(0, 4), of(2, in(4, 4)));
  CHECK(std::move(builder).build().steps[0].from == out(4, 4));
}

TEST_CASE("peers' slices are refused where they make no sense") {
  const auto refused = [](Reach reach, auto&& say) {
    Builder builder("test", reaching(reach), ranks(3), 0);
    CHECK_THROWS_AS(say(builder), Error);
  };
  refused(Reach::none, [](Builder& b) { b.copy(out(0, 4), of(1, in(0, 4))); });
  refused(Reach::read, [](Builder& b) { b.copy(of(1, out(0, 4)), in(0, 4)); });
  refused(Reach::read, [](Builder& b) { b.reduce_ranks(of(kEach, out(0, 4)), of(kEach, in(0, 4))); });
  refused(Reach::store, [](Builder& b) { b.copy(out(0, 4), of(3, in(0, 4))); });
  refused(Reach::store, [](Builder& b) { b.copy(out(0, 4), of(1, in(9, 4))); });
  refused(Reach::store, [](Builder& b) { b.copy(out(0, 4), of(kEach, in(0, 4))); });
  refused(Reach::store, [](Builder& b) { b.copy(out(0, 4), of(1, scratch(0, 4))); });
  refused(Reach::store, [](Builder& b) { b.copy(of(1, in(0, 4)), out(0, 4)); });
  refused(Reach::store, [](Builder& b) { b.reduce_ranks(out(0, 4), in(0, 4)); });
  refused(Reach::store, [](Builder& b) { b.send(1, of(2, in(0, 4))); });
  refused(Reach::store, [](Builder& b) { b.reduce(out(0, 4), of(2, in(0, 4))); });
}
