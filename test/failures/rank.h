#pragma once
// A rank process of the failure tests: what it is told, what it says to its judge, and the roles it can play. Uses the
// public API only. The test program runs itself again as each rank; roles stand beside the tests that judge them.
#include <anello/anello.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace failures {

std::int64_t now_ns();
void sleep_ms(std::int64_t ms);

class Rank {
 public:
  Rank();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // What the judge has set for this job, and as a number.
  std::string setting(const std::string& name, const std::string& fallback = "") const;
  int number(const std::string& name, int fallback) const;

  // From the environment; ends the process when that fails.
  anello_comm_t create(std::int64_t timeout_ms = 20'000);
  // A line to the judge, stamped with the time.
  template <class... Parts>
  void say(const Parts&... parts) {
    say_at(now_ns(), parts...);
  }
  template <class... Parts>
  void say_at(std::int64_t time_ns, const Parts&... parts) {
    std::ostringstream line;
    (line << ... << parts);
    write_line(time_ns, line.str());
  }
  // Says "what CODE text".
  void report(const std::string& what, anello_result_t result, anello_comm_t comm);
  // The next line from the judge; empty when it has gone.
  std::string hear();
  // What must hold here; the judge fails for every one that does not.
  bool check(bool holds, const std::string& what);
  bool check(anello_result_t result, const std::string& what, anello_comm_t comm = ANELLO_COMM_NULL);

 private:
  void write_line(std::int64_t time_ns, const std::string& text);
  int rank_;
  int size_;
};

class Role {
 public:
  using Body = void (*)(Rank&);
  Role(const char* name, Body body);
  // Plays the role of that name; the process's exit code.
  static int play(const std::string& name);
};

// A buffer, of this process alone or of anello_mem_alloc. Ends the process where there is none.
class Memory {
 public:
  Memory(std::size_t bytes, bool mapped);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
  bool mapped_;
};

// Buffers whose contents say whether anybody has stored into them.
class Canary {
 public:
  static void fill(void* memory, std::size_t bytes);
  // "intact", or where it is not.
  static std::string look(const void* memory, std::size_t bytes);
};

}  // namespace failures
