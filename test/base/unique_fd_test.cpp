#include "base/unique_fd.h"
#include "support/catch.h"

#include <functional>

#include <cerrno>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace anello {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1 || errno != EBADF; }

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

// What child returns, run in a forked child; -1 when it did not end by itself.
int in_child(const std::function<int()>& child) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(child());
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST_CASE("the last owner of a descriptor closes it, once") {
  const int number = open_null();
  REQUIRE(number >= 0);
  {
    UniqueFd first(number);
    UniqueFd second(std::move(first));
    CHECK_FALSE(static_cast<bool>(first));
    CHECK(second.get() == number);
    UniqueFd third;
    third = std::move(second);
    CHECK(is_open(number));
    third = UniqueFd(open_null());
    CHECK_FALSE(is_open(number));
    third.reset();
    third.reset();
  }
  const UniqueFd none;
  CHECK_FALSE(static_cast<bool>(none));
}

TEST_CASE("a released descriptor stays open") {
  int number = -1;
  {
    UniqueFd owner(open_null());
    number = owner.release();
  }
  CHECK(is_open(number));
  ::close(number);
}

TEST_CASE("a forked child has none of the owned descriptors, and the parent keeps all of them") {
  watch_forks();
  watch_forks();  // once is enough, twice does no harm
  const UniqueFd low(open_null());
  UniqueFd high(::fcntl(low.get(), F_DUPFD_CLOEXEC, 200));  // another word of the table
  REQUIRE(high.get() >= 200);
  UniqueFd given(open_null());
  const int released = given.release();
  UniqueFd closed(open_null());
  closed.reset();
  const int foreign = open_null();  // takes the number that was just closed

  const int verdict = in_child([&] {
    if (!in_forked_child()) return 1;
    if (is_open(low.get()) || is_open(high.get())) return 2;
    if (!is_open(released) || !is_open(foreign)) return 3;
    // The numbers are free again and may be somebody else's: an owner from before the fork must not close them.
    const int reused = ::dup2(released, high.get());
    high.reset();
    return is_open(reused) ? 0 : 4;
  });
  CHECK(verdict == 0);
  CHECK_FALSE(in_forked_child());
  CHECK(is_open(low.get()));
  CHECK(is_open(high.get()));
  ::close(released);
  ::close(foreign);
}

}  // namespace
}  // namespace anello
