// Where the job's secret goes, and where it does not.
#include "bootstrap/rank_handle.h"
#include "support/catch.h"

#include <sys/mman.h>
#include <sys/random.h>

using namespace anello::testing;

namespace {

// What anellorun gives each rank: inherited by every program that is started while it lives.
struct Secret {
  std::string bytes = std::string(32, '\0');
  // Not in a UniqueFd: the fork handler would close it in the ranks.
  const int file = ::memfd_create("secret-of-the-test", 0);
  Secret() {
    REQUIRE(::getrandom(bytes.data(), bytes.size(), 0) == 32);
    REQUIRE(::write(file, bytes.data(), bytes.size()) == 32);
  }
  ~Secret() { ::close(file); }
  std::string hex() const {
    std::string digits;
    for (const char byte : bytes) {
      for (const int half : {byte >> 4 & 15, byte & 15}) digits += "0123456789abcdef"[half];
    }
    return digits;
  }
};

}  // namespace

TEST_CASE("the secret is in no program that a rank starts, and in no page that a core dump contains") {
  const Secret secret;
  const std::string url = fresh_url();
  std::vector<RankHandle> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back(std::map<std::string, std::string>{{"ANELLO_SECRET_FD", std::to_string(secret.file)}});
  }
  // Until the library has it: so the test would see it.
  CHECK(ranks[0].ask("inherited secret-of-the-test", "inherited") == "inherited 1");
  for (int rank = 0; rank < 2; ++rank) ranks[std::size_t(rank)].tell(join_command(url, rank, 2));
  for (RankHandle& rank : ranks) {
    REQUIRE(!rank.hear("joined").empty());
    CHECK(rank.ask("inherited secret-of-the-test", "inherited") == "inherited 0");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose shadow memory takes hours to search
    CHECK(rank.ask("keys " + secret.hex(), "keys") == "keys dumped 0, kept");
#endif
  }
}
