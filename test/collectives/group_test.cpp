// Groups of calls: one thread as several ranks, sends and receives in any order.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <numeric>
#include <string>
#include <vector>

using namespace anello::test;

TEST_CASE("one thread drives several ranks through every kind of call") {
  constexpr int kRanks = 4;
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{100'000});
  anello_comm_t comms[kRanks];
  // Created by the one thread, too.
  anello_unique_id_t id;
  REQUIRE(anello_unique_id_create(&id) == ANELLO_OK);
  const char* transports = GENERATE("inproc", "shm", "tcp");
  CAPTURE(count, transports);
  REQUIRE(anello_group_begin() == ANELLO_OK);
  for (int rank = 0; rank < kRanks; ++rank) {
    anello_config_t config = ANELLO_CONFIG_INITIALIZER;
    config.rank = rank;
    config.world_size = kRanks;
    config.unique_id = &id;
    config.transports = transports;
    config.timeout_ms = 20'000;
    REQUIRE(anello_comm_create(&config, &comms[rank]) == ANELLO_OK);
  }
  REQUIRE(anello_group_end() == ANELLO_OK);

  std::vector<std::vector<float>> values(kRanks, std::vector<float>(count));
  std::vector<std::vector<float>> all(kRanks, std::vector<float>(count * kRanks));
  const auto grouped = [&](auto&& call) {
    REQUIRE(anello_group_begin() == ANELLO_OK);
    for (int rank = kRanks - 1; rank >= 0; --rank) REQUIRE(call(rank, std::size_t(rank)) == ANELLO_OK);
    REQUIRE(anello_group_end() == ANELLO_OK);
  };
  for (int rank = 0; rank < kRanks; ++rank) values[std::size_t(rank)].assign(count, float(rank + 1));
  grouped([&](int rank, std::size_t r) {
    return anello_allgather(values[r].data(), all[r].data(), count, ANELLO_FLOAT32, comms[rank]);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int part = 0; part < kRanks; ++part) {
      CHECK(all[std::size_t(rank)][std::size_t(part) * count + count - 1] == float(part + 1));
    }
  }
  // Several calls of each in one group, the barrier among them.
  REQUIRE(anello_group_begin() == ANELLO_OK);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto r = std::size_t(rank);
    REQUIRE(anello_allreduce(ANELLO_IN_PLACE, values[r].data(), count, ANELLO_FLOAT32, ANELLO_SUM, comms[rank]) ==
            ANELLO_OK);
    REQUIRE(anello_barrier(comms[rank]) == ANELLO_OK);
    REQUIRE(anello_broadcast(all[r].data(), count, ANELLO_FLOAT32, 2, comms[rank]) == ANELLO_OK);
  }
  REQUIRE(anello_group_end() == ANELLO_OK);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(values[std::size_t(rank)][count - 1] == 10);
    CHECK(all[std::size_t(rank)][count - 1] == 1);
  }
  // Everybody to everybody, sends first, large ones included, and a nested group.
  std::vector<anello_status_t> statuses(kRanks * kRanks);
  std::vector<std::vector<float>> got(kRanks * kRanks, std::vector<float>(count));
  REQUIRE(anello_group_begin() == ANELLO_OK);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int peer = 0; peer < kRanks; ++peer) {
      values[std::size_t(rank)].assign(count, float(rank));
      REQUIRE(anello_send(values[std::size_t(rank)].data(), count, ANELLO_FLOAT32, peer, 5, comms[rank]) == ANELLO_OK);
    }
  }
  REQUIRE(anello_group_begin() == ANELLO_OK);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto at = std::size_t(rank * kRanks + peer);
      REQUIRE(anello_recv(got[at].data(), count, ANELLO_FLOAT32, peer, ANELLO_ANY_TAG, comms[rank], &statuses[at]) ==
              ANELLO_OK);
    }
  }
  REQUIRE(anello_group_end() == ANELLO_OK);
  REQUIRE(anello_group_end() == ANELLO_OK);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto at = std::size_t(rank * kRanks + peer);
      CHECK(got[at][count - 1] == float(peer));
      CHECK(statuses[at].source == peer);
      CHECK(statuses[at].count == count);
    }
  }
  // Communicators of communicators, and a ring of sendrecv.
  anello_comm_t twins[kRanks], halves[kRanks];
  grouped([&](int rank, std::size_t) { return anello_comm_dup(comms[rank], &twins[rank]); });
  grouped([&](int rank, std::size_t) { return anello_comm_split(twins[rank], rank % 2, rank, &halves[rank]); });
  int rings[kRanks];
  grouped([&](int rank, std::size_t) {
    int other = -1;
    anello_comm_rank(halves[rank], &other);
    static const int numbers[] = {0, 1, 2, 3};
    return anello_sendrecv(&numbers[rank], 1, 1 - other, 1, &rings[rank], 1, 1 - other, 1, ANELLO_INT32, halves[rank],
                           nullptr);
  });
  for (int rank = 0; rank < kRanks; ++rank) CHECK(rings[rank] == (rank + 2) % 4);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(anello_comm_destroy(halves[rank]) == ANELLO_OK);
    CHECK(anello_comm_destroy(twins[rank]) == ANELLO_OK);
    CHECK(anello_comm_destroy(comms[rank]) == ANELLO_OK);
  }
}

TEST_CASE("a group ends with its first failure, and what cannot be grouped is refused") {
  anello_comm_t comms[2];
  REQUIRE(anello_comm_create_all(2, comms) == ANELLO_OK);
  CHECK(anello_group_end() == ANELLO_ERR_STATE);
  REQUIRE(anello_group_begin() == ANELLO_OK);
  int sent[2] = {1, 2}, got = 0, flag = 0;
  CHECK(anello_probe(0, 0, comms[1], nullptr) == ANELLO_ERR_STATE);
  CHECK(anello_iprobe(0, 0, comms[1], &flag, nullptr) == ANELLO_OK);
  anello_comm_t made = ANELLO_COMM_NULL;
  const int zero = 0;
  CHECK(anello_comm_create_group(comms[0], 1, &zero, 0, &made) == ANELLO_ERR_STATE);
  CHECK(anello_allreduce(nullptr, nullptr, 1, ANELLO_INT32, ANELLO_SUM, ANELLO_COMM_NULL) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_recv(&got, 1, ANELLO_INT32, 0, 0, comms[1], nullptr) == ANELLO_OK);
  CHECK(anello_send(sent, 2, ANELLO_INT32, 1, 0, comms[0]) == ANELLO_OK);
  CHECK(anello_group_end() == ANELLO_ERR_TRUNCATE);
  CHECK(std::string(anello_last_error(comms[1])).find("at most 1") != std::string::npos);
  // The thread is as it was.
  CHECK(anello_group_end() == ANELLO_ERR_STATE);
  for (const anello_comm_t comm : comms) CHECK(anello_comm_destroy(comm) == ANELLO_OK);
}

TEST_CASE("a deadline passes for one thread that waits as several ranks") {
  anello_comm_t comms[3];
  REQUIRE(anello_comm_create_all(3, comms) == ANELLO_OK);
  std::vector<anello_request_t> requests(2);
  int value[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.sendbuf = ANELLO_IN_PLACE;
    call.recvbuf = &value[rank];
    call.count = 1;
    call.dtype = ANELLO_INT32;
    call.timeout_ms = 300;
    REQUIRE(anello_post(comms[rank], &call, &requests[std::size_t(rank)]) == ANELLO_OK);
  }
  int index = -1;
  CHECK(anello_wait_any(2, requests.data(), &index, nullptr) == ANELLO_ERR_TIMEOUT);
  CHECK(anello_wait_all(2, requests.data(), nullptr) == ANELLO_ERR_TIMEOUT);
  for (const anello_comm_t comm : comms) anello_comm_destroy(comm);
}
