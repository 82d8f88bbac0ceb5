#pragma once
// On what a rank may run, as it tells the others: two ranks bound to a processor each do not crowd each other, two on
// the same one do, and each of them sees but one.
#include <cstdint>
#include <vector>

namespace anello::control {

class Processors {
 public:
  // One bit a processor, numbered as the kernel does.
  using Words = std::vector<std::uint64_t>;
  static constexpr std::size_t kMaxWords = 1024;

  Processors() = default;
  Processors(Words allowed, int quota) : allowed_(std::move(allowed)), quota_(quota) {}
  // The calling thread's affinity mask and its cgroup's quota (v1 and v2).
  static Processors of_this_process();

  const Words& allowed() const { return allowed_; }
  int quota() const { return quota_; }  // processors' worth of time, rounded up; 0: no limit
  // That all of those who may use these, or some of them, have between them: at least 1.
  int count() const;
  // Those of another rank of the host as well. Of none (as made without arguments): the other's.
  void join(const Processors& other);

 private:
  Words allowed_;
  int quota_ = 0;
};

}  // namespace anello::control
