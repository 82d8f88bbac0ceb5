#pragma once
// The process at the other end of a connection on this host.
#include "control/stream.h"

namespace anello::control {

// Once the connection has closed: whether that is because the process has ended, which takes a moment longer than its
// files.
class PeerProcess {
 public:
  explicit PeerProcess(const Stream& stream);
  Task<bool> ends(asio::io_context& io);

 private:
  bool is_here_ = false;  // on this host, and visible
  UniqueFd process_;      // empty: it has ended before
};

}  // namespace anello::control
