#pragma once
// The process at the other end of a connection on this host.
#include "control/stream.h"

namespace anello::control {

// Call it once the connection has closed. Returns whether the process has ended, which takes a moment longer than
// closing its files.
class PeerProcess {
 public:
  explicit PeerProcess(const Stream& stream);
  Task<bool> ends(asio::io_context& io);

 private:
  bool is_here_ = false;  // on this host, and visible
  UniqueFd process_;      // empty: it had already ended
};

}  // namespace anello::control
