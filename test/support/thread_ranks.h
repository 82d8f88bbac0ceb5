#pragma once
// Ranks as threads of the test, over the public API. Catch2's assertions are not for threads: a body reports what is
// wrong as text, and the caller checks that there is none.
#include <anello/anello.h>

#include <functional>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace anello::test {

class Report {
 public:
  template <class... Parts>
  void wrong(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    const std::lock_guard held(mutex_);
    if (lines_.size() < 20) lines_.push_back(out.str());
  }
  // For results of the API: anything but the expected code is wrong.
  void expect(anello_result_t got, anello_result_t expected, anello_comm_t comm, const std::string& what) {
    if (got != expected) {
      wrong(what, ": ", anello_result_name(got), " in place of ", anello_result_name(expected), ": ",
            anello_last_error(comm));
    }
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct Rank {
  anello_comm_t comm;
  int rank;
  int size;
  Report& report;

  void ok(anello_result_t result, const std::string& what) const { fails(result, ANELLO_OK, what); }
  void fails(anello_result_t result, anello_result_t code, const std::string& what) const {
    report.expect(result, code, comm, "rank " + std::to_string(rank) + ", " + what);
  }
};

// Runs body on `size` ranks joined over the transports; "" when nothing was wrong. first(rank): what each does before
// it joins.
inline std::string run_ranks(int size, const char* transports, const std::function<void(const Rank&)>& body,
                             std::int64_t timeout_ms = 20'000, const std::function<void(int)>& first = {}) {
  Report report;
  anello_unique_id_t id;
  if (anello_unique_id_create(&id) != ANELLO_OK) return anello_last_error(ANELLO_COMM_NULL);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      if (first) first(rank);
      anello_config_t config = ANELLO_CONFIG_INITIALIZER;
      config.rank = rank;
      config.world_size = size;
      config.unique_id = &id;
      config.transports = transports;
      config.timeout_ms = timeout_ms;
      anello_comm_t comm = ANELLO_COMM_NULL;
      if (anello_comm_create(&config, &comm) != ANELLO_OK) {
        report.wrong("rank ", rank, " was not created: ", anello_last_error(ANELLO_COMM_NULL));
        return;
      }
      body({comm, rank, size, report});
      anello_comm_destroy(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return report.text();
}

}  // namespace anello::test
