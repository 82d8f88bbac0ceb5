// What an error says in fields: the call, whom it is about, and who is lost.
#include "failures/judge.h"
#include "failures/rank.h"
#include "support/catch.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <signal.h>
#include <unistd.h>

using namespace failures;

namespace {

std::string words(const anello_error_t& error) {
  std::ostringstream out;
  out << anello_result_name(error.code) << " about " << error.rank << " pid " << error.pid << " call "
      << (error.call != nullptr ? error.call : "-") << " '" << error.label << "' lost";
  for (std::size_t i = 0; i < error.lost_count; ++i) out << " " << error.lost[i];
  return out.str();
}

const Role losing("losing", [](Rank& me) {
  const anello_comm_t comm = me.create();
  std::vector<float> values(std::size_t(me.number("count", 1)));
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLREDUCE;
  call.dtype = ANELLO_FLOAT32;
  call.sendbuf = ANELLO_IN_PLACE;
  call.recvbuf = values.data();
  call.count = values.size();
  call.label = "the last one";
  me.check(anello_post(comm, &call, nullptr), "the first call", comm);
  anello_error_t error = ANELLO_ERROR_INITIALIZER;
  me.check(anello_error_info(comm, &error), "error_info", comm);
  me.check(error.code == ANELLO_OK && *error.text == '\0' && error.lost_count == 0 && error.call == nullptr,
           "no failure yet");
  me.say("running");
  while (me.rank() < me.number("idle", 0)) sleep_ms(1000);
  std::int64_t rounds = 1;
  while (anello_post(comm, &call, nullptr) == ANELLO_OK) ++rounds;
  me.check(anello_error_info(comm, &error), "error_info", comm);
  me.check(std::strcmp(error.text, anello_last_error(comm)) == 0, "its text is that of anello_last_error");
  me.check(error.kind == ANELLO_ALLREDUCE && error.sequence == rounds,
           "its sequence is " + std::to_string(error.sequence) + " after " + std::to_string(rounds));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  me.check(std::strcmp(error.host, host) == 0, std::string("its host is ") + error.host);
  me.say("failed ", words(error));
  me.hear();  // until the second one is dead, too
  for (const std::int64_t end = now_ns() + 10'000'000'000; error.lost_count < 2 && now_ns() < end; sleep_ms(2)) {
    me.check(anello_error_info(comm, &error), "error_info", comm);
  }
  me.say("later ", words(error));
  // Another thread, whose own calls have not failed, sees the communicator's failure.
  std::thread([&] {
    anello_error_t other = ANELLO_ERROR_INITIALIZER;
    me.check(anello_error_info(comm, &other), "error_info", comm);
    me.check(other.code == ANELLO_ERR_PEER_LOST && other.call == nullptr && other.lost_count == 2,
             "on another thread: " + words(other));
  }).join();
  me.check(anello_comm_destroy(comm) == ANELLO_ERR_PEER_LOST, "destroy");
  me.check(anello_error_info(comm, &error), "error_info after destroy");
  me.check(error.code == ANELLO_ERR_PEER_LOST && error.lost_count == 0, "after destroy: " + words(error));
});

const Role various("various", [](Rank& me) {
  anello_error_t error = ANELLO_ERROR_INITIALIZER;
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  config.url = "nowhere";
  anello_comm_t comm = ANELLO_COMM_NULL;
  me.check(anello_comm_create(&config, &comm) != ANELLO_OK, "a wrong url");
  me.check(anello_error_info(ANELLO_COMM_NULL, &error), "error_info");
  me.check(error.code != ANELLO_OK && std::strstr(error.text, "nowhere") != nullptr && error.rank == -1 &&
               error.call == nullptr && error.lost_count == 0,
           "of a creation: " + words(error));
  comm = me.create();
  // Refused, cut short, timed out: each with its call.
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_RECV;
  call.peer = 7;
  call.label = "mine";
  me.check(anello_post(comm, &call, nullptr) == ANELLO_ERR_ARGUMENT, "a refused call");
  me.check(anello_error_info(comm, &error), "error_info");
  me.say("refused ", words(error));
  int value = 0, two[2] = {1, 2};
  anello_request_t request = ANELLO_REQUEST_NULL;
  const int other = 1 - me.rank();
  me.check(anello_isend(two, 2, ANELLO_INT32, other, 1, comm, &request), "isend", comm);
  call.peer = other;
  call.tag = 1;
  call.recvbuf = &value;
  call.count = 1;
  call.dtype = ANELLO_INT32;
  me.check(anello_post(comm, &call, nullptr) == ANELLO_ERR_TRUNCATE, "a message that is too long");
  me.check(anello_error_info(comm, &error), "error_info");
  me.say("cut ", words(error));
  me.check(anello_wait(&request, nullptr), "wait", comm);
  me.check(anello_barrier(comm), "barrier", comm);
  // Not before the other is out of its barrier, which it may be later than this one.
  if (me.rank() == 0) me.check(anello_send(&value, 1, ANELLO_INT32, 1, 2, comm), "send", comm);
  if (me.rank() == 1) {
    me.check(anello_recv(&value, 1, ANELLO_INT32, 0, 2, comm, nullptr), "recv", comm);
    me.check(anello_comm_abort(comm, "enough"), "abort");
  }
  anello_result_t ended = anello_ibarrier(comm, &request);
  if (ended == ANELLO_OK) ended = anello_wait(&request, nullptr);
  me.check(ended == ANELLO_ERR_ABORTED, "a barrier that was aborted");
  me.check(anello_error_info(comm, &error), "error_info");
  me.say("aborted ", words(error));
  error.size = 5;
  me.check(anello_error_info(comm, &error) == ANELLO_ERR_ARGUMENT, "a struct of another size");
  anello_comm_destroy(comm);
});

void lose_two(const std::string& transport, int first, int second, int count) {
  INFO(transport << ", ranks " << first << " and " << second << " of 4 killed, count " << count);
  Ranks job(4, "losing", transport, {{"count", std::to_string(count)}});
  job.expect_all("running");
  job.signal(first, SIGKILL);
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == first) continue;
    const Line line = job.expect(rank, "failed");
    CHECK(line.text == "failed ANELLO_ERR_PEER_LOST about " + std::to_string(first) + " pid " +
                           std::to_string(job.pid(first)) + " call allreduce 'the last one' lost " +
                           std::to_string(first));
  }
  job.signal(second, SIGKILL);
  const std::string both = std::to_string(std::min(first, second)) + " " + std::to_string(std::max(first, second));
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == first || rank == second) continue;
    job.tell(rank, "both");
    CHECK(job.expect(rank, "later").text == "later ANELLO_ERR_PEER_LOST about " + std::to_string(first) + " pid " +
                                                std::to_string(job.pid(first)) +
                                                " call allreduce 'the last one' lost " + both);
    job.expect(rank, "done");
  }
}

}  // namespace

TEST_CASE("both of two ranks that are killed are listed, the first as the cause") {
  lose_two("shm", 2, 1, 2);
  lose_two("shm", 0, 1, 100'000);
  lose_two("tcp", 1, 3, 2);
  lose_two("tcp", 0, 1, 100'000);
}

// The second one takes connections, but answers none: the others are still on their way to it when it dies.
TEST_CASE("a rank that dies before others have come to it as their parent is lost at once") {
  for (const char* const transport : {"shm", "tcp"}) {
    INFO(transport);
    // Both have made their last call: if the first one were in the next, the others would wait for the second alone.
    Ranks job(4, "losing", transport, {{"count", "100000"}, {"idle", "2"}});
    job.expect_all("running");
    job.signal(1, SIGSTOP);
    job.signal(0, SIGKILL);
    for (int rank = 2; rank < 4; ++rank) job.expect(rank, "failed");
    job.signal(1, SIGKILL);
    for (int rank = 2; rank < 4; ++rank) {
      job.tell(rank, "both");
      const std::string later = job.expect(rank, "later").text;
      CHECK(later.substr(later.rfind("lost")) == "lost 0 1");
      job.expect(rank, "done");
    }
  }
}

TEST_CASE("each failure tells its call") {
  Ranks job(2, "various", "shm");
  for (int rank = 0; rank < 2; ++rank) {
    const std::string other = std::to_string(1 - rank), pid = std::to_string(job.pid(1 - rank));
    CHECK(job.next(rank).text == "refused ANELLO_ERR_ARGUMENT about -1 pid 0 call recv 'mine' lost");
    CHECK(job.next(rank).text == "cut ANELLO_ERR_TRUNCATE about " + other + " pid " + pid + " call recv 'mine' lost");
    CHECK(job.next(rank).text ==
          "aborted ANELLO_ERR_ABORTED about 1 pid " + std::to_string(job.pid(1)) + " call barrier '' lost");
    job.expect(rank, "done");
  }
}
