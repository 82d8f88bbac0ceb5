#include "base/error.h"
#include "support/catch.h"

#include <cerrno>

namespace anello {
namespace {

TEST_CASE("an error of a system call names the call, the cause and its number") {
  const Error error = system_error("connect", ECONNREFUSED);
  CHECK(error.code() == ANELLO_ERR_SYSTEM);
  CHECK(error.peer() == -1);
  CHECK(error.text() == "connect: Connection refused (errno 111)");
  CHECK(std::string(error.what()) == error.text());
}

TEST_CASE("an error carries the rank that it is about, and no error is false") {
  CHECK_FALSE(static_cast<bool>(Error()));
  CHECK(Error().text().empty());
  const Error lost(ANELLO_ERR_PEER_LOST, "rank 3 has ended", 3);
  CHECK(static_cast<bool>(lost));
  CHECK(lost.peer() == 3);
  CHECK(lost.text() == "rank 3 has ended");
}

}  // namespace
}  // namespace anello
