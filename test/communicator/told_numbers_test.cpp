// A rank whose process has a memory fault says numbers that cannot be while communicators are made of others: its peers
// say so, and store nowhere.
#include "bootstrap/join.h"
#include "communicator/communicator.h"
#include "communicator/split.h"
#include "recorder/ledger.h"
#include "messaging/frame.h"
#include "support/catch.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace anello;

// The library's own is in the layer above.
extern "C" const char anello_in_place_marker = 0;

namespace {

// What each of three ranks was thrown: "CODE: text", or "".
using Body = std::function<void(Communicator&)>;
std::vector<std::string> on_three_ranks(const Body& liar, const Body& honest) {
  constexpr int kSize = 3;
  const anello_unique_id_t id = bootstrap::make_unique_id(true);
  std::vector<std::string> thrown(kSize);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      anello_config_t config = ANELLO_CONFIG_INITIALIZER;
      config.rank = rank;
      config.world_size = kSize;
      config.unique_id = &id;
      config.transports = "shm";
      config.timeout_ms = 20'000;
      try {
        const auto comm = Communicator::create(config);
        (rank == 0 ? liar : honest)(*comm);
      } catch (const Error& error) {
        thrown[std::size_t(rank)] = std::string(result_name(error.code())) + ": " + error.text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

anello_call_t internal_message(anello_kind_t kind, int peer, void* body, std::size_t bytes) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  call.peer = peer;
  call.tag = executor::kInternalTags;
  call.dtype = ANELLO_BYTE;
  call.count = bytes;
  call.sendbuf = call.recvbuf = body;
  return call;
}

void must_run(Communicator& comm, const anello_call_t& call, int record_kind = -1) {
  if (const Error error = comm.run(call, nullptr, record_kind)) throw error;
}

const int kBoards[] = {3'000'000, memory::kMaxBoards, 0, -2, -3'000'000};

}  // namespace

TEST_CASE("a split in which a rank names a board that cannot be ends with an error on who would use it") {
  const int board = GENERATE(from_range(std::begin(kBoards), std::end(kBoards)));
  CAPTURE(board);
  const auto thrown = on_three_ranks(
      [&](Communicator& comm) {
    Split lie;
    lie.choices.resize(std::size_t(comm.size()));
    lie.choices[0] = {7, 0, board, 1};
    must_run(comm, lie.gather(), recorder::kSplitCall);
      },
      [](Communicator& comm) {
    comm.split({7, 0}, recorder::kSplitCall);
  });
  CHECK(thrown[0] == "");
  for (const int rank : {1, 2}) {
    CHECK_THAT(
        thrown[std::size_t(rank)],
        Catch::StartsWith("ANELLO_ERR_CORRUPT: rank 0 says that it has reserved board " + std::to_string(board)));
  }
}

TEST_CASE("a group whose first member answers with a board, a rank or a number that cannot be is not made") {
  struct Lie {
    GroupAdmission said;
    const char* text;
  };
  std::vector<Lie> lies{{{77, -1, 2}, "ANELLO_ERR_MISMATCH"},
                        {{77, -1, 3'000'000}, "ANELLO_ERR_CORRUPT"},
                        {{77, -1, 0}, "ANELLO_ERR_CORRUPT"},
                        {{executor::Generations::id(0, 1), -1, -1},
                         "ANELLO_ERR_CORRUPT: rank 0 gave a new communicator the number of one that there is"}};
  for (const int board : kBoards)
    lies.push_back({{77, board, -1}, "ANELLO_ERR_CORRUPT: anello_comm_create_group: rank 0 gave an impossible answer"});
  for (const Lie& lie : lies) {
    CAPTURE(lie.said.board, lie.said.differing, lie.said.id);
    const auto thrown = on_three_ranks(
        [&](Communicator& comm) {
      for (const int peer : {1, 2}) {
        std::uint64_t application[2] = {};  // a digest of the list, and a generation
        GroupAdmission said = lie.said;
        must_run(comm, internal_message(ANELLO_RECV, peer, application, sizeof application));
        must_run(comm, internal_message(ANELLO_SEND, peer, &said, sizeof said));
      }
        },
        [](Communicator& comm) {
      comm.create_group({0, 1, 2}, 0);
    });
    CHECK(thrown[0] == "");
    for (const int rank : {1, 2}) CHECK_THAT(thrown[std::size_t(rank)], Catch::StartsWith(lie.text));
  }
}
