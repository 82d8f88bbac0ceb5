#include "channel.h"

#include <string>

namespace parameter_server {

void check(anello_comm_t comm, anello_result_t result, const char* what) {
  if (result == ANELLO_OK) return;
  throw std::runtime_error(std::string(what) + ": " + anello_result_name(result) + ": " + anello_last_error(comm));
}

Channel::Channel(anello_comm_t all, int worker) {
  const int ranks[] = {0, worker};
  check(all, anello_comm_create_group(all, 2, ranks, worker, &comm_), "opening a channel");
}

Channel::~Channel() { (void)anello_comm_destroy(comm_); }

}  // namespace parameter_server
