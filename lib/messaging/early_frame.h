#pragma once
// A frame that came before its operation could take it, kept until then. The sender's credit pays for it.
#include "base/fifo.h"
#include "transports/transport.h"

#include <cstddef>
#include <vector>

namespace anello::messaging {

struct EarlyFrame {
  transport::FrameHeader header;
  std::vector<std::byte> payload;
  std::size_t filled = 0;
  int source = -1;  // world rank
  EarlyFrame* next = nullptr;
};
using EarlyFrames = Fifo<EarlyFrame, &EarlyFrame::next>;

// Supplies early frames and takes them back, so that similar ones allocate nothing. Requires the rank's lock.
class FramePool {
 public:
  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // Returns a frame with room for its payload. Throws std::bad_alloc.
  EarlyFrame* take(const transport::FrameHeader& header, int source);
  void give_back(EarlyFrame* frame);
  void give_back_all(EarlyFrames& frames);

 private:
  std::vector<EarlyFrame*> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace anello::messaging
