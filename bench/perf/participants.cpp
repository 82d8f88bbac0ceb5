#include "perf/participants.h"

#include "perf/failure.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

namespace perf {
namespace {

// The message between ranks; texts are zero-terminated.
struct Card {
  char host[64];
  char transports[120];
  std::int32_t pid;
  std::int32_t processors;
};

void copy(char* into, std::size_t room, const std::string& text) {
  std::memcpy(into, text.data(), std::min(text.size(), room - 1));
}

std::string transports(anello_comm_t comm, int rank, int ranks) {
  std::map<std::string, int> peers;
  for (int peer = 0; peer < ranks; ++peer) {
    const char* transport = "";
    if (peer == rank) continue;
    check(anello_comm_transport(comm, peer, &transport), "anello_comm_transport", comm);
    ++peers[transport];
  }
  std::string text;
  for (const auto& [transport, count] : peers) {
    text += (text.empty() ? "" : ", ") + transport + " to " + std::to_string(count) + (count == 1 ? " rank" : " ranks");
  }
  return text;
}

}  // namespace

std::vector<Participant> participants(anello_comm_t comm) {
  int rank = 0;
  int ranks = 1;
  check(anello_comm_rank(comm, &rank), "anello_comm_rank", comm);
  check(anello_comm_size(comm, &ranks), "anello_comm_size", comm);
  Card own{};
  gethostname(own.host, sizeof own.host - 1);
  copy(own.transports, sizeof own.transports, transports(comm, rank, ranks));
  own.pid = getpid();
  cpu_set_t set;
  own.processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

  std::vector<Card> cards(static_cast<std::size_t>(ranks));
  check(anello_allgather(&own, cards.data(), sizeof own, ANELLO_UINT8, comm), "anello_allgather", comm);
  std::vector<Participant> result;
  for (const Card& card : cards) result.push_back({card.host, card.pid, card.processors, card.transports});
  return result;
}

}  // namespace perf
