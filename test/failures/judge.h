#pragma once
// The judge's side: starts ranks as processes, listens to what they say, and ends those that it started.
#include "support/knob.h"
#include "support/process.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/types.h>

namespace failures {

using anello::test::own_path, anello::test::Settings, anello::test::start;
using anello::testing::knob;  // FAILURE_KILLS, FAILURE_SEED, FAILURE_COMPUTE_MS, ..

struct Line {
  std::int64_t time_ns = 0;
  std::string text;
  bool begins(const std::string& with) const { return text.compare(0, with.size(), with) == 0; }
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

// What goes wrong with a rank beyond what a test expects: it ends, it is silent, it says WRONG.
struct Trouble : std::runtime_error {
  using runtime_error::runtime_error;
};

// How many times more time things may take than on a machine that is not emulated (FAILURE_SLOWNESS).
inline std::int64_t slowness() { return knob("FAILURE_SLOWNESS", 1); }
inline std::int64_t patience_ms() { return 30'000 * slowness(); }

class Ranks {
 public:
  Ranks(int count, const std::string& role, const std::string& transport, Settings settings = {});
  ~Ranks();  // kills and waits for those that are left
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int count() const { return static_cast<int>(processes_.size()); }
  pid_t pid(int rank) const { return processes_[std::size_t(rank)].pid; }
  // What the rank says next. Throws Trouble when it says WRONG, ends, or is silent for limit_ms.
  Line next(int rank, std::int64_t limit_ms = patience_ms());
  // The same, which must begin with `with`.
  Line expect(int rank, const std::string& with, std::int64_t limit_ms = patience_ms());
  void expect_all(const std::string& with);
  void tell(int rank, const std::string& line);
  // How long its threads could have run but had no processor, all in all. A rank that is quick on an idle machine is as
  // quick beside others, but for this.
  std::int64_t unserved_ns(int rank) const;
  // Sends the signal; the time just before.
  std::int64_t signal(int rank, int number);
  // All say "done" next and end with 0.
  void finish();
  // The exit status as of waitpid.
  int wait(int rank, std::int64_t limit_ms = patience_ms());

 private:
  struct Process {
    pid_t pid = -1;
    int out = -1;  // read here
    int in = -1;   // written here
    bool ended = false;
    int status = 0;
    std::string heard;
  };
  std::vector<Process> processes_;
};

}  // namespace failures
