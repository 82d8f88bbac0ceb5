#pragma once
// The places at which a host could be reached: it listens at each of its addresses. Others try them with a probe.
#include "anellorun/descriptor.h"
#include "anellorun/job.h"

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

namespace anellorun {

// What a visitor gets: the nonce, so that it knows the right host, and the host's clock.
inline constexpr std::size_t kNonceBytes = 16;
inline constexpr std::size_t kGreetingBytes = kNonceBytes + sizeof(std::int64_t);

// Of the clock that logs and traces show.
std::int64_t microseconds_since_1970();

class Offers {
 public:
  // interface: the value of variable, which is ANELLO_INTERFACE or ANELLO_INTERFACES; "" means all. ports:
  // ANELLO_PORT_RANGE; "" means any. Throws std::system_error, std::runtime_error.
  Offers(const std::string& variable, const std::string& interface, const std::string& ports);

  const std::string& nonce() const { return nonce_; }
  // In order of preference; ports are free.
  const std::vector<MeetingPlace>& places() const { return places_; }
  void watch(std::vector<pollfd>& into);
  // Greets those who have connected. entries: those that watch() has appended.
  void take(const pollfd* entries);

 private:
  // An error number if none of the ports can be had.
  int offer(const std::string& ip, const std::vector<std::uint16_t>& ports);

  std::string nonce_;
  std::vector<MeetingPlace> places_;
  std::vector<Descriptor> listeners_;
};

}  // namespace anellorun
