#pragma once
// The processors on which a rank may run, as it reports them to the others. Two ranks that are bound to different
// processors do not compete; two on the same processor do, and each of them sees only one.
#include <cstdint>
#include <vector>

namespace anello::control {

class Processors {
 public:
  // One bit per processor, with the kernel's numbers.
  using Words = std::vector<std::uint64_t>;
  static constexpr std::size_t kMaxWords = 1024;

  Processors() = default;
  Processors(Words allowed, int quota) : allowed_(std::move(allowed)), quota_(quota) {}
  // The calling thread's affinity mask and its cgroup's quota (v1 and v2).
  static Processors of_this_process();

  const Words& allowed() const { return allowed_; }
  int quota() const { return quota_; }  // processors' worth of time, rounded up; 0: no limit
  // The processors that all ranks with these sets share: at least 1.
  int count() const;
  // Adds those of another rank of the host. For an empty set (made without arguments), returns the other's.
  void join(const Processors& other);

 private:
  Words allowed_;
  int quota_ = 0;
};

}  // namespace anello::control
