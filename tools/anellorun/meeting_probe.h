#pragma once
// Finds a meeting place that every host of a job reaches, before any rank starts: the host of rank 0 listens at each of
// its addresses, and the others try to connect. So a firewall or an address that leads nowhere is named at once.
#include "anellorun/descriptor.h"
#include "anellorun/job.h"

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace anellorun {

class Offers {
 public:
  // interface: ANELLO_INTERFACE, or "" for all; ports: ANELLO_PORT_RANGE, or "" for any. Throws std::system_error,
  // std::runtime_error.
  Offers(const std::string& interface, const std::string& ports);

  const std::string& nonce() const { return nonce_; }
  // In order of preference; ports are free.
  const std::vector<MeetingPlace>& places() const { return places_; }
  void watch(std::vector<pollfd>& into);
  // Shows those who have connected that this is the right host.
  void take(const pollfd* entries);

 private:
  void offer(const std::string& ip, int low, int high);

  std::string nonce_;
  std::vector<MeetingPlace> places_;
  std::vector<Descriptor> listeners_;
};

// Connects to each place for at most so long, all at the same time. An error number for each; 0: the place answers with
// the nonce. Blocks.
std::vector<int> probe(std::string_view nonce, const std::vector<MeetingPlace>& places, std::chrono::milliseconds time);

}  // namespace anellorun
