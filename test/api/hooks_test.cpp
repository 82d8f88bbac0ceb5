// What hooks are told of a program: pairs, their order, and what stands in them.
#include "support/catch.h"
#include "support/thread_ranks.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace anello::test;

namespace {

struct Told {
  anello_hook_info_t info;
  std::string name, algorithm, transport, label, error;
  std::thread::id thread;
};

// Listens until it goes out of scope.
class Tracer {
 public:
  Tracer() {
    anello_hooks_t hooks = ANELLO_HOOKS_INITIALIZER;
    hooks.context = this;
    hooks.before =
        hooks.after = [](void* self, const anello_hook_info_t* info) { static_cast<Tracer*>(self)->hear(*info); };
    hooks.released = [](void* self) { ++static_cast<Tracer*>(self)->released; };
    REQUIRE(anello_set_hooks(&hooks) == ANELLO_OK);
  }
  ~Tracer() { anello_set_hooks(nullptr); }
  std::vector<Told> of_rank(int rank) const {
    const std::lock_guard held(mutex_);
    std::vector<Told> some;
    for (const Told& each : told_) {
      if (each.info.rank == rank) some.push_back(each);
    }
    return some;
  }
  std::atomic<int> released{0};

 private:
  void hear(const anello_hook_info_t& info) {
    const std::lock_guard held(mutex_);
    told_.push_back({info, info.name, info.algorithm != nullptr ? info.algorithm : "-", info.transport, info.label,
                     info.error, std::this_thread::get_id()});
  }
  mutable std::mutex mutex_;
  std::vector<Told> told_;
};

// "before allreduce #0 count 4 bytes 16 peer 0 ring shm 'a'".
std::string line(const Told& told) {
  const anello_hook_info_t& info = told.info;
  std::string text = (info.phase == ANELLO_POSTED ? "before " : "after ") + told.name;
  text += " #" + std::to_string(info.sequence) + " count " + std::to_string(info.count) + " bytes " +
          std::to_string(info.bytes) + " peer " + std::to_string(info.peer) + " tag " + std::to_string(info.tag) + " " +
          told.algorithm + " " + told.transport + (info.blocking != 0 ? " blocks" : "") + " '" + told.label + "'";
  if (info.result != ANELLO_OK) text += std::string(" ") + anello_result_name(info.result) + ": " + told.error;
  return text;
}

std::string lines(const std::vector<Told>& told) {
  std::string all;
  for (const Told& each : told) all += line(each) + "\n";
  return all;
}

anello_result_t sum(std::vector<float>& values, anello_comm_t comm, const char* label, const char* algorithm,
                    anello_request_t* request) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLREDUCE;
  call.dtype = ANELLO_FLOAT32;
  call.sendbuf = ANELLO_IN_PLACE;
  call.recvbuf = values.data();
  call.count = values.size();
  call.label = label;
  call.algorithm = algorithm;
  return anello_post(comm, &call, request);
}

}  // namespace

TEST_CASE("a mixed program is told as it was made") {
  Tracer tracer;
  CHECK(run_ranks(2, "shm",
                  [](const Rank& me) {
    const int other = 1 - me.rank;
    std::vector<float> small(4), large(100'000);
    std::vector<std::int64_t> in(3), out(6);
    anello_request_t request = ANELLO_REQUEST_NULL;
    me.ok(sum(small, me.comm, "step", nullptr, nullptr), "allreduce");
    me.ok(sum(large, me.comm, nullptr, "tree", &request), "iallreduce");
    me.ok(anello_wait(&request, nullptr), "wait");
    me.ok(anello_allgather(in.data(), out.data(), 3, ANELLO_INT64, me.comm), "allgather");
    if (me.rank == 0) {
      me.ok(anello_send(in.data(), 2, ANELLO_INT64, 1, 9, me.comm), "send");
    } else {
      me.ok(anello_recv(out.data(), 6, ANELLO_INT64, ANELLO_ANY_SOURCE, ANELLO_ANY_TAG, me.comm, nullptr), "recv");
    }
    me.ok(anello_sendrecv(in.data(), 1, other, 1, out.data(), 1, other, 1, ANELLO_INT64, me.comm, nullptr), "sendrecv");
    me.ok(anello_barrier_init(me.comm, &request), "init");
    for (int round = 0; round < 2; ++round) {
      me.ok(anello_start(&request), "start");
      me.ok(anello_wait_all(1, &request, nullptr), "wait_all");
    }
    me.ok(anello_request_free(&request), "free");
    me.fails(anello_allreduce(nullptr, nullptr, 1, ANELLO_FLOAT32, ANELLO_SUM, me.comm), ANELLO_ERR_ARGUMENT,
             "refused");
        }) == "");
  const std::string begin =
      "before allreduce #0 count 4 bytes 16 peer 0 tag 0 exchange shm blocks 'step'\n"
      "after allreduce #0 count 4 bytes 16 peer 0 tag 0 exchange shm blocks 'step'\n"
      "before allreduce #1 count 100000 bytes 400000 peer 0 tag 0 tree shm ''\n"
      "after allreduce #1 count 100000 bytes 400000 peer 0 tag 0 tree shm ''\n"
      "before allgather #2 count 3 bytes 48 peer 0 tag 0 exchange shm blocks ''\n"
      "after allgather #2 count 3 bytes 48 peer 0 tag 0 exchange shm blocks ''\n";
  const auto end = [](const std::string& other) {
    return "before recv #-1 count 1 bytes 8 peer " + other +
           " tag 1 - shm ''\n"
           "before send #-1 count 1 bytes 8 peer " +
           other +
           " tag 1 - shm blocks ''\n"
           "after send #-1 count 1 bytes 8 peer " +
           other +
           " tag 1 - shm blocks ''\n"
           "after recv #-1 count 1 bytes 8 peer " +
           other +
           " tag 1 - shm ''\n"
           "before barrier #3 count 0 bytes 0 peer 0 tag 0 exchange shm ''\n"
           "after barrier #3 count 0 bytes 0 peer 0 tag 0 exchange shm ''\n"
           "before barrier #4 count 0 bytes 0 peer 0 tag 0 exchange shm ''\n"
           "after barrier #4 count 0 bytes 0 peer 0 tag 0 exchange shm ''\n";
  };
  CHECK(lines(tracer.of_rank(0)) == begin +
                                        "before send #-1 count 2 bytes 16 peer 1 tag 9 - shm blocks ''\n"
                                        "after send #-1 count 2 bytes 16 peer 1 tag 9 - shm blocks ''\n" +
                                        end("1"));
  CHECK(lines(tracer.of_rank(1)) == begin +
                                        "before recv #-1 count 6 bytes 48 peer -1 tag -1 - shm blocks ''\n"
                                        "after recv #-1 count 2 bytes 16 peer 0 tag 9 - shm blocks ''\n" +
                                        end("0"));
  std::map<std::uint64_t, Told> open;
  for (const int rank : {0, 1}) {
    for (const Told& told : tracer.of_rank(rank)) {
      CHECK(told.info.size == sizeof told.info);
      CHECK(told.info.ranks == 2);
      CHECK(told.info.comm_id == 1);
      if (told.info.phase == ANELLO_POSTED) {
        CHECK(told.info.completed_ns == 0);
        CHECK(open.emplace(told.info.call, told).second);
      } else {
        REQUIRE(open.count(told.info.call) == 1);
        const Told& before = open.at(told.info.call);
        CHECK(before.info.comm == told.info.comm);
        CHECK(before.info.posted_ns == told.info.posted_ns);
        CHECK(told.info.posted_ns <= told.info.completed_ns);
        open.erase(told.info.call);
      }
    }
  }
  CHECK(open.empty());
}

TEST_CASE("completion is told on the thread that waits, with the failure that it reports") {
  Tracer tracer;
  CHECK(run_ranks(2, "tcp", [](const Rank& me) {
          anello_comm_t comm = ANELLO_COMM_NULL;
          me.ok(anello_comm_dup(me.comm, &comm), "dup");
          std::vector<float> values(8);
          if (me.rank == 0) {
            anello_request_t request = ANELLO_REQUEST_NULL;
            me.ok(sum(values, comm, "never", nullptr, &request), "post");
            me.ok(anello_comm_abort(comm, "enough"), "abort");
            std::thread([&] { me.fails(anello_wait(&request, nullptr), ANELLO_ERR_ABORTED, "wait"); }).join();
          }
          me.ok(anello_barrier(me.comm), "barrier");
          anello_comm_destroy(comm);
        }) == "");
  const std::vector<Told> told = tracer.of_rank(0);
  REQUIRE(told.size() == 4);
  CHECK(told[0].info.comm_id != 1);
  CHECK(told[1].info.call == told[0].info.call);
  CHECK(told[1].thread != told[0].thread);
  CHECK(told[1].info.result == ANELLO_ERR_ABORTED);
  CHECK(told[1].error.find("enough") != std::string::npos);
  CHECK(told[1].label == "never");
}

TEST_CASE("hooks that are replaced hear the end of what they heard the beginning of, and are then released") {
  Tracer first;
  CHECK(run_ranks(1, "inproc", [&](const Rank& me) {
          std::vector<float> values(1);
          anello_request_t request = ANELLO_REQUEST_NULL;
          me.ok(anello_irecv(values.data(), 1, ANELLO_FLOAT32, 0, 1, me.comm, &request), "irecv");
          {
            Tracer second;
            if (first.released != 0) me.report.wrong("released with a call under way");
            me.ok(anello_send(values.data(), 1, ANELLO_FLOAT32, 0, 1, me.comm), "send");
            me.ok(anello_wait(&request, nullptr), "wait");
            if (first.released != 1) me.report.wrong("released ", first.released, " times");
            if (second.of_rank(0).size() != 2) me.report.wrong("the second was told of ", second.of_rank(0).size());
            if (first.of_rank(0).size() != 2) me.report.wrong("the first was told of ", first.of_rank(0).size());
            anello_set_hooks(nullptr);
            if (second.released != 1) me.report.wrong("the second was released ", second.released, " times");
          }
          me.ok(anello_barrier(me.comm), "barrier");
          if (first.of_rank(0).size() != 2) me.report.wrong("told of a call after it was replaced");
        }) == "");
}

TEST_CASE("a hook may not post on its communicator, may on another, and keeps its exceptions") {
  struct Meddler {
    anello_comm_t own, other;
    anello_result_t on_own, on_other;
    int told;
  };
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          static thread_local Meddler meddler;
          meddler = {me.comm, ANELLO_COMM_NULL, ANELLO_OK, ANELLO_ERR_INTERNAL, 0};
          me.ok(anello_comm_dup(me.comm, &meddler.other), "dup");
          anello_hooks_t hooks = ANELLO_HOOKS_INITIALIZER;
          hooks.before = [](void*, const anello_hook_info_t* info) {
            ++meddler.told;
            int rank = -1;
            if (anello_comm_rank(info->comm, &rank) != ANELLO_OK || rank != info->rank) meddler.told = -100;
            meddler.on_own = anello_barrier(meddler.own);
            meddler.on_other = anello_barrier(meddler.other);
            throw std::runtime_error("not to be seen");
          };
          me.ok(anello_barrier(me.comm), "barrier");
          // The hooks are the process's, so both threads set the same ones.
          me.ok(anello_set_hooks(&hooks), "set_hooks");
          float value = 1;
          me.ok(anello_allreduce(ANELLO_IN_PLACE, &value, 1, ANELLO_FLOAT32, ANELLO_SUM, me.comm), "allreduce");
          if (value != 2) me.report.wrong("the sum is ", value);
          if (meddler.told != 1) me.report.wrong("told ", meddler.told, " times");
          me.report.expect(meddler.on_own, ANELLO_ERR_STATE, me.comm, "a barrier on the communicator of the call");
          me.report.expect(meddler.on_other, ANELLO_OK, meddler.other, "a barrier on another one");
          me.ok(anello_barrier(meddler.other), "barrier");
          anello_set_hooks(nullptr);
          anello_comm_destroy(meddler.other);
        }) == "");
}

TEST_CASE("hooks come and go while calls are made") {
  CHECK(run_ranks(2, "shm", [](const Rank& me) {
          std::vector<float> values(16);
          for (int round = 0; round < 2000; ++round) {
            if (round % 7 == me.rank) {
              struct Count {
                std::atomic<int> before{0}, after{0};
              };
              anello_hooks_t hooks = ANELLO_HOOKS_INITIALIZER;
              hooks.context = new Count;
              hooks.before = [](void* count, const anello_hook_info_t*) { ++static_cast<Count*>(count)->before; };
              hooks.after = [](void* count, const anello_hook_info_t*) { ++static_cast<Count*>(count)->after; };
              hooks.released = [](void* count) {
                const Count* const mine = static_cast<Count*>(count);
                if (mine->before != mine->after) std::abort();
                delete mine;
              };
              me.ok(anello_set_hooks(round % 3 == 0 ? nullptr : &hooks), "set_hooks");
              if (round % 3 == 0) delete static_cast<Count*>(hooks.context);
            }
            me.ok(sum(values, me.comm, "x", nullptr, nullptr), "allreduce");
          }
          me.ok(anello_set_hooks(nullptr), "set_hooks");
        }) == "");
}

TEST_CASE("hooks of another size are refused") {
  anello_hooks_t hooks = ANELLO_HOOKS_INITIALIZER;
  hooks.size = 8;
  CHECK(anello_set_hooks(&hooks) == ANELLO_ERR_ARGUMENT);
  CHECK(anello_set_hooks(nullptr) == ANELLO_OK);
}
