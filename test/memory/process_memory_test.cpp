// Reads another process's memory by system call, between this process and real children.
#include "memory/process_memory.h"

#include "support/call_filter.h"
#include "support/catch.h"

#include <cerrno>
#include <cstddef>
#include <vector>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace anello::memory;

namespace {

// A child that stays until it is told to go, and its memory.
class Child {
 public:
  Child() : memory_(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) memory_[i] = std::byte(i * 7);
    REQUIRE(::pipe(go_) == 0);
    REQUIRE(::pipe(said_) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      // From here on the child has memory of its own: the parent has other bytes at the same address.
      for (std::size_t i = 0; i < kBytes; ++i) memory_[i] = std::byte(i * 11);
      const Sample sample = own_sample();
      if (::write(said_[1], &sample, sizeof sample) != sizeof sample) ::_exit(1);
      char byte;
      ::close(go_[1]);
      ::_exit(::read(go_[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::close(go_[0]);
    REQUIRE(::read(said_[0], &sample_, sizeof sample_) == sizeof sample_);
  }
  ~Child() {
    ::close(go_[1]);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ::close(said_[0]);
    ::close(said_[1]);
  }
  const Sample& sample() const { return sample_; }
  std::uint64_t address(std::size_t at) const { return reinterpret_cast<std::uintptr_t>(memory_.data() + at); }
  static constexpr std::size_t kBytes = 3'000'000;

 private:
  std::vector<std::byte> memory_;
  int go_[2], said_[2];
  pid_t pid_ = -1;
  Sample sample_{};
};

}  // namespace

TEST_CASE("a child's memory is read only if its number is found there") {
  const Child child;
  if (!can_read(child.sample())) {
    WARN("SKIPPED: the kernel does not let this process read a child's memory");
    return;
  }
  Sample other = child.sample();
  other.number += 1;
  CHECK_FALSE(can_read(other));
  other = child.sample();
  other.process = static_cast<std::uint64_t>(::getppid());
  CHECK_FALSE(can_read(other));
  CHECK_FALSE(can_read(Sample{}));
  // This sample is like that of an ended process whose PID another process has by now.
  other = child.sample();
  other.number += 1;
  std::byte byte{};
  CHECK(read_process(other, child.address(0), &byte, 1) == ESRCH);

  std::vector<std::byte> got(child.kBytes - 5);
  REQUIRE(read_process(child.sample(), child.address(5), got.data(), got.size()) == 0);
  for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == std::byte((i + 5) * 11));
}

TEST_CASE("a range of which only a part can be read is an error") {
  auto* const pages =
      static_cast<std::byte*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  // Not unmapped: the next allocation might fill the hole.
  REQUIRE(::mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  const Child child;
  if (!can_read(child.sample())) {
    WARN("SKIPPED: the kernel does not let this process read a child's memory");
    return;
  }
  std::byte into[8192];
  const auto at = reinterpret_cast<std::uintptr_t>(pages);
  CHECK(read_process(child.sample(), at, into, 4096) == 0);
  CHECK(read_process(child.sample(), at, into, 8192) == EFAULT);
  CHECK(read_process(child.sample(), at + 4096, into, 1) == EFAULT);
  ::munmap(pages, 8192);
}

TEST_CASE("a process finds out which of its own memory others could read") {
  auto* const pages =
      static_cast<std::byte*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  const auto at = reinterpret_cast<std::uintptr_t>(pages);
  if (!can_read(own_sample())) {
    WARN("SKIPPED: the kernel does not let processes read each other");
    return;
  }
  CHECK(can_be_read(at, 8192));
  CHECK(can_be_read(at, 1));
  CHECK(can_be_read(0, 0));
  REQUIRE(::munmap(pages + 4096, 4096) == 0);
  CHECK_FALSE(can_be_read(at, 8192));
  CHECK(can_be_read(at, 4096));
  ::munmap(pages, 8192);
}

TEST_CASE("a process that has ended cannot be read") {
  Sample sample;
  {
    const Child child;
    sample = child.sample();
  }
  CHECK_FALSE(can_read(sample));
  std::byte into[8];
  CHECK(read_process(sample, sample.address, into, 8) == ESRCH);
}

TEST_CASE("nothing is read if the system call is forbidden") {
  const Sample own = own_sample();
  const pid_t tries = ::fork();
  if (tries == 0) {
    if (!anello::test::forbid_system_call(SYS_process_vm_readv, EPERM)) ::_exit(2);
    ::_exit(can_read(own) ? 1 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(tries, &status, 0) == tries);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    WARN("SKIPPED: this kernel has no system call filters");
    return;
  }
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
