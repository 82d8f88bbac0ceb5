// Windows: memory of each rank that the others of its host reach by pointers.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

using namespace anello::test;

namespace {

std::uint32_t value(int rank, std::size_t i, int turn) {
  return std::uint32_t(rank) * 1'000'003 + std::uint32_t(i) * 7 + std::uint32_t(turn);
}

}  // namespace

TEST_CASE("each rank sees what the others write into their parts, and writes into theirs") {
  const char* transports = GENERATE("inproc", "shm");
  CAPTURE(transports);
  CHECK(run_ranks(4, transports, [](const Rank& me) {
          for (int turn = 0; turn < 3; ++turn) {
            // Parts of different sizes, rank 2's of none.
            const auto words = [&](int rank) { return rank == 2 ? std::size_t{0} : std::size_t(rank + 1) * 5'003; };
            void* base = nullptr;
            anello_window_t window = ANELLO_WINDOW_NULL;
            me.ok(anello_window_create(words(me.rank) * 4, me.comm, &base, &window), "create");
            if ((base == nullptr) != (me.rank == 2)) me.report.wrong("rank ", me.rank, ": base ", base);
            auto* own = static_cast<std::uint32_t*>(base);
            for (std::size_t i = 0; i < words(me.rank); ++i) {
              if (own[i] != 0) {
                me.report.wrong("rank ", me.rank, ": not zeroed at ", i);
                break;
              }
            }
            for (std::size_t i = 0; i < words(me.rank); ++i) own[i] = value(me.rank, i, turn);
            me.ok(anello_barrier(me.comm), "barrier");
            for (int peer = 0; peer < me.size; ++peer) {
              void* pointer = &window;
              std::size_t bytes = 99;
              me.ok(anello_window_peer(window, peer, &pointer, &bytes), "peer");
              if (bytes != words(peer) * 4) me.report.wrong("rank ", peer, "'s part has ", bytes, " bytes");
              if (peer == 2) {
                if (pointer != nullptr) me.report.wrong("a part of no bytes is mapped");
                continue;
              }
              const auto* theirs = static_cast<const std::uint32_t*>(pointer);
              for (std::size_t i = 0; i < words(peer); ++i) {
                if (theirs[i] == value(peer, i, turn)) continue;
                me.report.wrong("rank ", me.rank, " sees ", theirs[i], " at ", i, " of rank ", peer);
                break;
              }
            }
            me.ok(anello_barrier(me.comm), "barrier");
            // To the next rank's first word, and as the buffer of a collective.
            const int next = me.rank == 1 ? 3 : (me.rank + 1) % 4;
            if (me.rank != 2) {
              void* pointer = nullptr;
              me.ok(anello_window_peer(window, next, &pointer, nullptr), "peer");
              *static_cast<std::uint32_t*>(pointer) = std::uint32_t(me.rank) + 1;
            }
            me.ok(anello_barrier(me.comm), "barrier");
            const std::uint32_t from = me.rank == 3 ? 2 : me.rank == 0 ? 4 : 1;
            if (me.rank != 2 && own[0] != from) me.report.wrong("rank ", me.rank, " was written ", own[0]);
            std::uint32_t alone = 0;
            std::uint32_t* const sum = me.rank == 2 ? &alone : own;
            me.ok(anello_allreduce(ANELLO_IN_PLACE, sum, 1, ANELLO_UINT32, ANELLO_SUM, me.comm), "allreduce");
            if (*sum != 7) me.report.wrong("sum ", *sum);
            me.ok(anello_window_free(&window), "free");
            if (window != ANELLO_WINDOW_NULL) me.report.wrong("the handle is left");
          }
        }) == "");
}

TEST_CASE("memory that ranks have already is reached where it can be") {
  const char* transports = GENERATE("inproc", "shm");
  CAPTURE(transports);
  CHECK(run_ranks(3, transports, [](const Rank& me) {
          // Threads of one process: window_processes.c has the others.
          void* base = nullptr;
          anello_window_t whole = ANELLO_WINDOW_NULL, part = ANELLO_WINDOW_NULL, own = ANELLO_WINDOW_NULL;
          me.ok(anello_window_create(20'000, me.comm, &base, &whole), "create");
          auto* bytes = static_cast<unsigned char*>(base);
          me.ok(anello_window_register(bytes + 5000, 7000, me.comm, &part), "register");
          std::vector<unsigned char> memory(300, static_cast<unsigned char>(me.rank + 40));
          me.ok(anello_window_register(memory.data(), memory.size(), me.comm, &own), "register");
          bytes[5000] = static_cast<unsigned char>(me.rank + 1);
          bytes[11'999] = static_cast<unsigned char>(me.rank + 2);
          me.ok(anello_barrier(me.comm), "barrier");
          for (int peer = 0; peer < me.size; ++peer) {
            void* pointer = nullptr;
            std::size_t size = 0;
            me.ok(anello_window_peer(part, peer, &pointer, &size), "peer");
            const auto* theirs = static_cast<const unsigned char*>(pointer);
            if (size != 7000 || theirs[0] != peer + 1 || theirs[6999] != peer + 2)
              me.report.wrong("rank ", me.rank, " of ", peer);
            me.ok(anello_window_peer(own, peer, &pointer, &size), "peer");
            if (size != 300 || static_cast<const unsigned char*>(pointer)[299] != peer + 40)
              me.report.wrong("own memory of ", peer);
          }
          me.ok(anello_window_free(&own), "free");
          me.ok(anello_window_free(&part), "free");
          me.ok(anello_window_free(&whole), "free");
        }) == "");
}

TEST_CASE("a window that cannot be had is refused on all ranks, and what is freed is known to be") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          void* base = nullptr;
          anello_window_t window = ANELLO_WINDOW_NULL;
          me.fails(anello_window_create(me.rank == 1 ? std::size_t{1} << 50 : 64, me.comm, &base, &window),
                   ANELLO_ERR_RESOURCE, "too large");
          if (std::string(anello_last_error(me.comm)).find("rank 1 has no") == std::string::npos)
            me.report.wrong(anello_last_error(me.comm));
          me.ok(anello_window_create(64, me.comm, &base, &window), "create");
          me.fails(anello_window_peer(window, 3, &base, nullptr), ANELLO_ERR_ARGUMENT, "no rank");
          me.fails(anello_window_peer(window, 0, nullptr, nullptr), ANELLO_ERR_ARGUMENT, "to nowhere");
          anello_window_t copy = window;
          me.ok(anello_window_free(&window), "free");
          me.ok(anello_window_free(&window), "free of none");
          me.fails(anello_window_free(&copy), ANELLO_ERR_STATE, "free again");
          me.fails(anello_window_peer(copy, 0, &base, nullptr), ANELLO_ERR_STATE, "peer of what was freed");
          // Its communicator may go first.
          me.ok(anello_window_create(64, me.comm, &base, &window), "create");
          anello_comm_t twin = ANELLO_COMM_NULL;
          anello_window_t of_twin = ANELLO_WINDOW_NULL;
          me.ok(anello_comm_dup(me.comm, &twin), "dup");
          me.ok(anello_window_create(64, twin, &base, &of_twin), "create");
          me.ok(anello_comm_destroy(twin), "destroy");
          std::memset(base, 1, 64);
          me.fails(anello_window_free(&of_twin), ANELLO_ERR_STATE, "free after destroy");
          me.ok(anello_window_free(&window), "free");
        }) == "");
}

TEST_CASE("one rank that asks for a window while the others call something else is told so") {
  CHECK(run_ranks(3, "shm", [](const Rank& me) {
          void* base = nullptr;
          anello_window_t window = ANELLO_WINDOW_NULL;
          if (me.rank == 1) {
            me.fails(anello_window_create(64, me.comm, &base, &window), ANELLO_ERR_MISMATCH, "create");
          } else {
            me.fails(anello_barrier(me.comm), ANELLO_ERR_MISMATCH, "barrier");
          }
          const std::string text = anello_last_error(me.comm);
          if (text.find("window_create()") == std::string::npos) me.report.wrong(text);
        }) == "");
}
