// The explorer itself: small programs whose outcomes under C++20's memory model are known. Each is run in all ways;
// what is forbidden never comes, and every weak outcome that is allowed does.
#include "support/catch.h"
#include "weak_memory/explorer.h"

#include <array>
#include <atomic>
#include <set>
#include <vector>

using namespace anello::weak_memory;

namespace {

constexpr Order relaxed = Order::relaxed, acquire = Order::acquire, release = Order::release, acq_rel = Order::acq_rel,
                seq_cst = Order::seq_cst;

struct alignas(64) Shared {
  std::atomic<int> x, y, z;
  int data;
} shared;

using Registers = std::array<int, 4>;
using Bodies = std::vector<std::function<void()>>;

struct Run {
  Outcome outcome;
  std::set<Registers> seen;
  bool has(Registers which) const { return seen.count(which) > 0; }
};

// bodies: of the threads, which write what they read to the registers.
Run run(const Bodies& bodies, Registers* registers) {
  Explorer explorer;
  explorer.share(&shared, sizeof shared);
  Run result;
  Program program;
  program.names = {"first", "second", "third", "fourth"};
  program.begin = [&] {
    *registers = {};
    return bodies;
  };
  program.end = [&] { result.seen.insert(*registers); };
  result.outcome = explorer.explore(program, 1'000'000);
  return result;
}

Registers r;

void full_fence() { std::atomic_thread_fence(seq_cst); }

Run pass_message(Order store, Order load, Order fence_before = relaxed, Order fence_after = relaxed) {
  return run({[=] {
    shared.x.store(1, relaxed);
    std::atomic_thread_fence(fence_before);
    shared.y.store(1, store);
              },
              [=] {
    r[0] = shared.y.load(load);
    std::atomic_thread_fence(fence_after);
    r[1] = shared.x.load(relaxed);
  }},
      &r);
}

Run pass_plain_data(Order store, Order load) {
  return run({[=] {
    shared.data = 7;
    shared.y.store(1, store);
              },
              [=] {
    if (shared.y.load(load) == 1) r[0] = shared.data;
  }},
      &r);
}

}  // namespace

TEST_CASE("message passing needs both a release and an acquire") {
  const Run strong = pass_message(release, acquire);
  CHECK(strong.outcome.is_complete);
  CHECK(strong.seen == std::set<Registers>{{0, 0}, {0, 1}, {1, 1}});
  CHECK(pass_message(relaxed, acquire).has({1, 0}));
  CHECK(pass_message(release, relaxed).has({1, 0}));
  CHECK(pass_message(relaxed, relaxed).has({1, 0}));
  CHECK_FALSE(pass_message(seq_cst, seq_cst).has({1, 0}));
}

TEST_CASE("fences pass messages by relaxed accesses") {
  CHECK_FALSE(pass_message(relaxed, relaxed, release, acquire).has({1, 0}));
  CHECK_FALSE(pass_message(relaxed, acquire, release).has({1, 0}));
  CHECK_FALSE(pass_message(release, relaxed, relaxed, acquire).has({1, 0}));
  CHECK_FALSE(pass_message(relaxed, relaxed, seq_cst, seq_cst).has({1, 0}));
  CHECK(pass_message(relaxed, relaxed, acquire, acquire).has({1, 0}));
  CHECK(pass_message(relaxed, relaxed, release, release).has({1, 0}));
}

TEST_CASE("plain data without an order is a data race") {
  const Run strong = pass_plain_data(release, acquire);
  CHECK(strong.outcome.failure.empty());
  CHECK(strong.seen == std::set<Registers>{{0}, {7}});
  CHECK(pass_plain_data(relaxed, acquire).outcome.failure.find("data race") == 0);
  CHECK(pass_plain_data(release, relaxed).outcome.failure.find("data race") == 0);
}

TEST_CASE("store buffering is forbidden only by full fences or sequential consistency") {
  const auto buffer = [](Order store, Order load, bool first_fences, bool second_fences) {
    return run({[=] {
      shared.x.store(1, store);
      if (first_fences) full_fence();
      r[0] = shared.y.load(load);
                },
                [=] {
      shared.y.store(1, store);
      if (second_fences) full_fence();
      r[1] = shared.x.load(load);
    }},
        &r);
  };
  CHECK(buffer(relaxed, relaxed, false, false).seen.size() == 4);
  CHECK(buffer(release, acquire, false, false).has({0, 0}));
  CHECK(buffer(relaxed, relaxed, true, false).has({0, 0}));
  CHECK(buffer(relaxed, relaxed, true, true).seen == std::set<Registers>{{0, 1}, {1, 0}, {1, 1}});
  CHECK(buffer(seq_cst, seq_cst, false, false).seen == std::set<Registers>{{0, 1}, {1, 0}, {1, 1}});
  CHECK(buffer(seq_cst, relaxed, false, false).has({0, 0}));
  CHECK(buffer(relaxed, seq_cst, false, false).has({0, 0}));
}

TEST_CASE("a barrier in every thread is the other side's fence too") {
  const auto buffer = [](bool barrier) {
    return run({[=] {
      shared.x.store(1, relaxed);
      if (barrier) Explorer::running()->barrier();
      r[0] = shared.y.load(relaxed);
                },
                [=] {
      shared.y.store(1, relaxed);
      r[1] = shared.x.load(relaxed);
    }},
        &r);
  };
  CHECK(buffer(false).has({0, 0}));
  CHECK_FALSE(buffer(true).has({0, 0}));
}

TEST_CASE("two loads of a location never go back") {
  const Run read = run({[] {
    shared.x.store(1, relaxed);
    shared.x.store(2, relaxed);
                        },
                        [] {
    r[0] = shared.x.load(relaxed);
    r[1] = shared.x.load(relaxed);
  }},
            &r);
  CHECK(read.seen == std::set<Registers>{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}});
  const Run own = run({[] {
    shared.x.store(1, relaxed);
    r[0] = shared.x.load(relaxed);
                       },
                       [] { shared.x.store(2, relaxed); }},
                      &r);
  CHECK(own.seen == std::set<Registers>{{1}, {2}});
}

TEST_CASE("a store may be early in modification order") {
  const auto cross = [](Order order) {
    return run(
        {[=] {
      shared.x.store(1, relaxed);
      shared.y.store(2, order);
         },
         [=] {
      shared.y.store(1, relaxed);
      shared.x.store(2, order);
        },
        [] {
      r[0] = shared.x.load(relaxed);
      r[1] = shared.x.load(relaxed);
        },
        [] {
      r[2] = shared.y.load(relaxed);
      r[3] = shared.y.load(relaxed);
    }},
        &r);
  };
  CHECK(cross(relaxed).has({2, 1, 2, 1}));
  CHECK(cross(release).has({2, 1, 2, 1}));
}

TEST_CASE("a release goes on through updates, and through nothing else") {
  const auto chain = [](bool updates) {
    return run(
        {[] {
      shared.x.store(1, relaxed);
      shared.y.store(1, release);
         },
         [=] {
      if (updates) {
        shared.y.fetch_add(1, relaxed);
      } else if (shared.y.load(relaxed) == 1) {
        shared.y.store(2, relaxed);
      }
        },
        [] {
      r[0] = shared.y.load(acquire);
      r[1] = shared.x.load(relaxed);
        }},
        &r);
  };
  CHECK_FALSE(chain(true).has({2, 0}));
  CHECK(chain(true).has({2, 1}));
  CHECK(chain(false).has({2, 0}));
}

TEST_CASE("independent readers agree on an order only by full fences or sequential consistency") {
  const auto read = [](Order store, Order load, bool fences) {
    return run({[=] { shared.x.store(1, store); }, [=] { shared.y.store(1, store); },
                [=] {
      r[0] = shared.x.load(load);
      if (fences) full_fence();
      r[1] = shared.y.load(load);
                },
                [=] {
      r[2] = shared.y.load(load);
      if (fences) full_fence();
      r[3] = shared.x.load(load);
    }},
        &r);
  };
  CHECK(read(release, acquire, false).has({1, 0, 1, 0}));
  CHECK_FALSE(read(relaxed, relaxed, true).has({1, 0, 1, 0}));
  CHECK_FALSE(read(seq_cst, seq_cst, false).has({1, 0, 1, 0}));
}

TEST_CASE("what a thread was told it passes on") {
  const auto tell = [](Order order) {
    return run(
        {[] {
      shared.x.store(1, relaxed);
      shared.y.store(1, release);
         },
         [=] {
      if (shared.y.load(order) == 1) shared.z.store(1, release);
        },
        [] {
      r[0] = shared.z.load(acquire);
      r[1] = shared.x.load(relaxed);
        }},
        &r);
  };
  CHECK_FALSE(tell(acquire).has({1, 0}));
  CHECK(tell(relaxed).has({1, 0}));
}

TEST_CASE("updates lose nothing") {
  const Run both =
      run({[] { r[0] = shared.x.fetch_add(1, relaxed); }, [] { r[1] = shared.x.fetch_add(1, relaxed); }}, &r);
  CHECK(both.seen == std::set<Registers>{{0, 1}, {1, 0}});
  const auto enter = [](int i) {
    int none = 0;
    r[std::size_t(i)] = shared.x.compare_exchange_strong(none, 1, acq_rel, relaxed) ? 1 : 0;
  };
  const Run one = run({[=] { enter(0); }, [=] { enter(1); }, [=] { enter(2); }}, &r);
  CHECK(one.seen == std::set<Registers>{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}});
}

TEST_CASE("a full fence orders what threads read, and excuses no data race") {
  const Run fenced = run({[] {
    shared.data = 7;
    full_fence();
                          },
                          [] {
    full_fence();
    r[0] = shared.data;
  }},
            &r);
  CHECK(fenced.outcome.failure.find("data race") == 0);
}

TEST_CASE("a waiting thread that nobody wakes is found") {
  const auto sleep = [](bool fences) {
    return run({[=] {
      shared.x.store(1, relaxed);
      if (fences) full_fence();
      if (shared.y.load(relaxed) != 0) Explorer::running()->ring(0);
                },
                [] {
      shared.y.store(1, relaxed);
      full_fence();
      if (shared.x.load(relaxed) == 0) Explorer::running()->wait_for(0);
      r[0] = shared.x.load(relaxed);
    }},
        &r);
  };
  CHECK(sleep(true).outcome.failure.empty());
  CHECK(sleep(true).seen == std::set<Registers>{{1}});
  CHECK(sleep(false).outcome.failure.find("second: waits forever") == 0);
}

TEST_CASE("a thread that polls sees a store in the end") {
  const auto poll = [](Order load) {
    return run({[] {
      shared.data = 7;
      shared.y.store(1, release);
                },
                [=] {
      while (shared.y.load(load) == 0) Explorer::running()->await_change();
      r[0] = shared.data;
    }},
        &r);
  };
  const Run strong = poll(acquire);
  CHECK(strong.outcome.failure.empty());
  CHECK(strong.outcome.is_complete);
  CHECK(strong.seen == std::set<Registers>{{7}});
  CHECK(poll(relaxed).outcome.failure.find("data race") == 0);
  const Run never = run({[] { shared.x.store(1, relaxed); },
                         [] {
    while (shared.y.load(acquire) == 0) Explorer::running()->await_change();
                         }},
                        &r);
  CHECK(never.outcome.failure.find("second: waits forever") == 0);
}

TEST_CASE("a plain store over an atomic one is what loads read from then on") {
  const Run over = run({[] {
    shared.x.store(1, relaxed);
    *reinterpret_cast<int*>(&shared.x) = 5;
    shared.y.store(1, release);
                        },
                        [] {
    if (shared.y.load(acquire) == 1) r[0] = shared.x.load(relaxed);
  }},
            &r);
  CHECK(over.outcome.failure.empty());
  CHECK(over.seen == std::set<Registers>{{0}, {5}});
}

TEST_CASE("an order that is weakened by its place no longer holds") {
  Explorer explorer;
  explorer.share(&shared, sizeof shared);
  Program program;
  program.names = {"writer", "reader"};
  program.field = [](std::uintptr_t at) { return at == reinterpret_cast<std::uintptr_t>(&shared.y) ? "flag" : "data"; };
  program.begin = [] {
    return Bodies{[] {
      shared.data = 7;
      shared.y.store(1, release);
                  },
                  [] {
      if (shared.y.load(acquire) == 1) r[0] = shared.data;
    }};
  };
  const Outcome whole = explorer.explore(program, 1000);
  CHECK(whole.failure.empty());
  CHECK(whole.places == std::set<Place>{{Kind::store, "flag", release}, {Kind::load, "flag", acquire}});
  explorer.weaken({Kind::store, "flag", release});
  const Outcome weak = explorer.explore(program, 1000);
  CHECK(weak.failure.find("data race: reader") == 0);
  CHECK(weak.failure.find("writer: store flag") != std::string::npos);
}
