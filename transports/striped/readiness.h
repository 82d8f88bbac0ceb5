#pragma once
// One descriptor for those of all rails: readable while a rail that is asked about has something.
#include "base/unique_fd.h"
#include "transports/transport.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::transport {

class Readiness {
 public:
  explicit Readiness(std::size_t rails);  // throws Error
  // Throws Error.
  void add(std::size_t rail, int descriptor);
  // From now on the descriptor tells whether bytes of the rail can be read, or whether there is room to send. Costs a
  // system call only if that is a change.
  void ask(std::size_t rail, bool arrivals, bool room);
  // Whether all rails are asked about arrivals.
  bool asks_all() const { return deaf_ == 0; }
  int descriptor() const { return epoll_.get(); }

 private:
  struct Rail {
    int descriptor = -1;
    std::uint32_t events = 0;
  };
  UniqueFd epoll_;
  std::vector<Rail> rails_;
  std::size_t deaf_ = 0;  // rails that are not asked about arrivals
};

}  // namespace anello::transport
