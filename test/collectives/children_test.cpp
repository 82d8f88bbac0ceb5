// Communicators made of others: by host, by their members alone, without waiting, many at once; and by event loops.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>

using namespace anello::test;

namespace {

// Sum of `value` over comm's ranks; wrong where comm does not have that size or this rank in it.
void sums_to(const Rank& me, anello_comm_t comm, int rank, int size, int value, int expected, const std::string& what) {
  int got_rank = -1, got_size = -1;
  me.ok(anello_comm_rank(comm, &got_rank), what);
  me.ok(anello_comm_size(comm, &got_size), what);
  if (got_rank != rank || got_size != size) {
    me.report.wrong("rank ", me.rank, ", ", what, ": is ", got_rank, " of ", got_size, " in place of ", rank, " of ",
                    size);
  }
  me.ok(anello_allreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_INT32, ANELLO_SUM, comm), what);
  if (value != expected) me.report.wrong("rank ", me.rank, ", ", what, ": sum ", value, " in place of ", expected);
}

// Whether its ranks share a board: a barrier then needs nothing else.
bool has_board(anello_comm_t comm) {
  const anello_call_t barrier = ANELLO_CALL_INITIALIZER;
  char said[2000];
  std::size_t length = 0;
  return anello_explain(comm, &barrier, said, sizeof said, &length) == ANELLO_OK &&
         std::strstr(said, "\"board\":true") != nullptr;
}

const char* kTransports[] = {"inproc", "shm", "tcp"};

}  // namespace

TEST_CASE("communicators are made without waiting, in the order of their posts, while others are used") {
  const char* transports = GENERATE(from_range(std::begin(kTransports), std::end(kTransports)));
  CAPTURE(transports);
  CHECK(run_ranks(5, transports,
                  [](const Rank& me) {
    anello_comm_t twin = ANELLO_COMM_NULL, half = ANELLO_COMM_NULL;
    anello_request_t requests[3];
    int value = me.rank;
    me.ok(anello_comm_idup(me.comm, &twin, &requests[0]), "idup");
    me.ok(anello_iallreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_INT32, ANELLO_SUM, me.comm, &requests[1]), "iallreduce");
    me.ok(anello_comm_isplit(me.comm, me.rank == 4 ? ANELLO_UNDEFINED : me.rank % 2, -me.rank, &half, &requests[2]),
          "isplit");
    if (me.rank % 2 == 0) {
      me.ok(anello_wait_all(3, requests, nullptr), "wait_all");
    } else {
      for (int left = 3; left > 0; --left) {
        int index = -1;
        me.ok(anello_wait_any(3, requests, &index, nullptr), "wait_any");
      }
    }
    if (value != 10) me.report.wrong("sum ", value);
    sums_to(me, twin, me.rank, 5, 1, 5, "idup");
    if (me.rank == 4) {
      if (half != ANELLO_COMM_NULL) me.report.wrong("an undefined colour got a communicator");
    } else {
      sums_to(me, half, 1 - me.rank / 2, 2, me.rank, me.rank % 2 == 0 ? 2 : 4, "isplit");
      me.ok(anello_comm_destroy(half), "destroy");
    }
    me.ok(anello_comm_destroy(twin), "destroy");
        }) == "");
}

TEST_CASE("ranks of one host join") {
  CHECK(run_ranks(3, "tcp", [](const Rank& me) {
          anello_comm_t local = ANELLO_COMM_NULL;
          me.ok(anello_comm_split_host(me.comm, -me.rank, &local), "split_host");
          sums_to(me, local, 2 - me.rank, 3, 1, 3, "split_host");
          me.ok(anello_comm_destroy(local), "destroy");
        }) == "");
}

TEST_CASE("a group is made by its members alone, several at once, while the others do something else") {
  const char* transports = GENERATE(from_range(std::begin(kTransports), std::end(kTransports)));
  CAPTURE(transports);
  CHECK(run_ranks(5, transports,
                  [](const Rank& me) {
    // Ranks 3, 1 and 4 in this order, and 0 and 1; rank 2 in none. Rank 1 makes both at once.
    const int three[] = {3, 1, 4}, two[] = {1, 0};
    anello_comm_t of_three = ANELLO_COMM_NULL, of_two = ANELLO_COMM_NULL;
    std::thread other;
    if (me.rank == 0 || me.rank == 1) {
      other = std::thread([&] { me.ok(anello_comm_create_group(me.comm, 2, two, 7, &of_two), "create_group of two"); });
    }
    // A receive of anything takes none of the messages by which groups are made.
    char text = 0;
    anello_request_t anything = ANELLO_REQUEST_NULL;
    me.ok(anello_irecv(&text, 1, ANELLO_BYTE, ANELLO_ANY_SOURCE, ANELLO_ANY_TAG, me.comm, &anything), "irecv");
    if (me.rank != 0 && me.rank != 2)
      me.ok(anello_comm_create_group(me.comm, 3, three, 8, &of_three), "create_group of three");
    if (other.joinable()) other.join();
    if (of_three != ANELLO_COMM_NULL) {
      sums_to(me, of_three, me.rank == 3 ? 0 : me.rank == 1 ? 1 : 2, 3, me.rank, 8, "three");
      me.ok(anello_comm_destroy(of_three), "destroy");
    }
    if (of_two != ANELLO_COMM_NULL) {
      sums_to(me, of_two, 1 - me.rank, 2, me.rank, 1, "two");
      me.ok(anello_comm_destroy(of_two), "destroy");
    }
    me.ok(anello_send("x", 1, ANELLO_BYTE, (me.rank + 1) % 5, 3, me.comm), "send");
    anello_status_t status{};
    me.ok(anello_wait(&anything, &status), "wait");
    if (text != 'x' || status.tag != 3) me.report.wrong("got '", text, "', tag ", status.tag);
    sums_to(me, me.comm, me.rank, 5, 1, 5, "all");
        }) == "");
}

TEST_CASE("lists that differ, and lists without the caller, are told; the communicator goes on") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          const int lists[][3] = {{0, 1, 2}, {0, 2, 1}, {0, 1, 2}};
          anello_comm_t made = ANELLO_COMM_NULL;
          me.fails(anello_comm_create_group(me.comm, 3, lists[me.rank], 0, &made), ANELLO_ERR_MISMATCH,
                   "lists that differ");
          const std::string text = anello_last_error(me.comm);
          if (text.find("ranks 0 and 1") == std::string::npos) me.report.wrong(text);
          const int without[] = {(me.rank + 1) % 3}, twice[] = {me.rank, me.rank}, beyond[] = {me.rank, 3};
          me.fails(anello_comm_create_group(me.comm, 1, without, 0, &made), ANELLO_ERR_ARGUMENT, "without the caller");
          me.fails(anello_comm_create_group(me.comm, 2, twice, 0, &made), ANELLO_ERR_ARGUMENT, "twice");
          me.fails(anello_comm_create_group(me.comm, 2, beyond, 0, &made), ANELLO_ERR_ARGUMENT, "beyond");
          me.fails(anello_comm_create_group(me.comm, 0, nullptr, 0, &made), ANELLO_ERR_ARGUMENT, "of nobody");
          me.fails(anello_comm_create_group(me.comm, 1, &me.rank, -1, &made), ANELLO_ERR_ARGUMENT, "tag");
          sums_to(me, me.comm, me.rank, 3, 1, 3, "after refusals");
        }) == "");
}

TEST_CASE("six hundred communicators: the last ones have no board, and boards come back") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          for (int turn = 0; turn < 2; ++turn) {
            std::vector<anello_comm_t> made(600);
            for (std::size_t i = 0; i < made.size(); ++i) {
              me.ok(anello_comm_split(me.comm, i % 2 == 0 ? 0 : me.rank % 2, 0, &made[i]), "split");
            }
            if (!has_board(made.front())) me.report.wrong("turn ", turn, ": the first one has no board");
            if (has_board(made[598])) me.report.wrong("turn ", turn, ": there are six hundred boards");
            for (std::size_t i = 0; i < made.size(); ++i) {
              const bool all = i % 2 == 0, odd = me.rank % 2 == 1;
              sums_to(me, made[i], all ? me.rank : me.rank / 2,
                      all   ? 3
                      : odd ? 1
                            : 2,
                      me.rank,
                      all   ? 3
                      : odd ? 1
                            : 2,
                      "one of many");
            }
            for (const anello_comm_t each : made) me.ok(anello_comm_destroy(each), "destroy");
          }
        }) == "");
}

TEST_CASE("what a communicator that has failed is asked for uses no boards up") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          anello_comm_t failed = ANELLO_COMM_NULL, made = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &failed), "dup");
          me.ok(anello_comm_abort(failed, nullptr), "abort");
          for (int turn = 0; turn < 600; ++turn) {
            me.fails(anello_comm_split(failed, 0, 0, &made), ANELLO_ERR_ABORTED, "split");
            me.fails(anello_comm_dup(failed, &made), ANELLO_ERR_ABORTED, "dup");
          }
          me.ok(anello_comm_dup(me.comm, &made), "dup");
          if (!has_board(made)) me.report.wrong("no board is left");
          me.ok(anello_comm_destroy(made), "destroy");
          me.fails(anello_comm_destroy(failed), ANELLO_ERR_ABORTED, "destroy");
        }) == "");
}

TEST_CASE("a communicator is created without waiting for the others") {
  anello_unique_id_t id;
  REQUIRE(anello_unique_id_create(&id) == ANELLO_OK);
  anello_comm_t comms[2] = {ANELLO_COMM_NULL, ANELLO_COMM_NULL};
  anello_request_t requests[2] = {ANELLO_REQUEST_NULL, ANELLO_REQUEST_NULL};
  const auto create = [&](int rank) {
    anello_config_t config = ANELLO_CONFIG_INITIALIZER;
    config.rank = rank;
    config.world_size = 2;
    config.unique_id = &id;
    config.timeout_ms = 10'000;
    const std::string transports = "shm";  // gone when the call is over
    config.transports = transports.c_str();
    return anello_comm_icreate(&config, &comms[rank], &requests[rank]);
  };
  REQUIRE(create(0) == ANELLO_OK);
  int done = 1;
  CHECK(anello_test(&requests[0], &done, nullptr) == ANELLO_OK);
  CHECK(done == 0);
  CHECK(comms[0] == ANELLO_COMM_NULL);
  REQUIRE(create(1) == ANELLO_OK);
  CHECK(anello_wait_all(2, requests, nullptr) == ANELLO_OK);
  CHECK(requests[1] == ANELLO_REQUEST_NULL);
  int size = 0;
  CHECK(anello_comm_size(comms[1], &size) == ANELLO_OK);
  CHECK(size == 2);
  for (const anello_comm_t comm : comms) CHECK(anello_comm_destroy(comm) == ANELLO_OK);

  // One that fails says so when it is waited for.
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.rank = 0;
  config.world_size = 2;
  config.url = "tcp://127.0.0.1:1";
  config.timeout_ms = 300;
  REQUIRE(anello_comm_icreate(&config, &comms[0], &requests[0]) == ANELLO_OK);
  int index = -1;
  CHECK(anello_wait_any(1, requests, &index, nullptr) != ANELLO_OK);
  CHECK(std::string(anello_last_error(ANELLO_COMM_NULL)) != "");
  CHECK(requests[0] == ANELLO_REQUEST_NULL);
}

TEST_CASE("an event loop learns of completions by a descriptor") {
  const char* transports = GENERATE(from_range(std::begin(kTransports), std::end(kTransports)));
  CAPTURE(transports);
  CHECK(run_ranks(2, transports, [](const Rank& me) {
          int descriptor = -1, again = -1;
          me.ok(anello_comm_descriptor(me.comm, &descriptor), "descriptor");
          me.ok(anello_comm_descriptor(me.comm, &again), "descriptor");
          if (descriptor != again) me.report.wrong("two descriptors");
          pollfd interest{descriptor, POLLIN, 0};
          if (poll(&interest, 1, 0) != 0) me.report.wrong("readable with nothing under way");
          for (const std::size_t count : {std::size_t{1}, std::size_t{3'000'000}}) {
            std::vector<float> values(count, 1);
            if (me.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(
                anello_iallreduce(ANELLO_IN_PLACE, values.data(), count, ANELLO_FLOAT32, ANELLO_SUM, me.comm, &request),
                "post");
            int done = 0;
            for (int turn = 0; done == 0 && turn < 100; ++turn) {
              if (poll(&interest, 1, 10'000) != 1) {
                me.report.wrong("rank ", me.rank, ": not readable");
                break;
              }
              me.ok(anello_progress(me.comm), "progress");
              me.ok(anello_test(&request, &done, nullptr), "test");
            }
            if (done == 0) me.ok(anello_wait(&request, nullptr), "wait");
            if (values.back() != 2) me.report.wrong("sum ", values.back());
          }
          me.ok(anello_progress(me.comm), "progress");
          if (poll(&interest, 1, 0) != 0) me.report.wrong("readable after progress");
          me.fails(anello_comm_descriptor(me.comm, nullptr), ANELLO_ERR_ARGUMENT, "descriptor to nowhere");
        }) == "");
}

TEST_CASE("a rank that never waits meets its deadline in anello_progress") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          if (me.rank == 0) {
            anello_call_t call = ANELLO_CALL_INITIALIZER;
            call.kind = ANELLO_RECV;
            int value = 0;
            call.recvbuf = &value;
            call.count = 1;
            call.dtype = ANELLO_INT32;
            call.peer = 1;
            call.timeout_ms = 200;
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(anello_post(me.comm, &call, &request), "post");
            int done = 0;
            anello_result_t result = ANELLO_OK;
            for (int turn = 0; done == 0 && turn < 200; ++turn) {
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              anello_progress(me.comm);
              result = anello_test(&request, &done, nullptr);
            }
            if (done == 0 || result != ANELLO_ERR_TIMEOUT)
              me.report.wrong("done ", done, ": ", anello_result_name(result));
          } else {
            me.fails(anello_barrier(me.comm), ANELLO_ERR_TIMEOUT, "barrier");
          }
        }) == "");
}
