#pragma once
// The communicator that the server shares with one worker. Weights and gradients travel here, and only announcements in
// the communicator of all ranks: when a worker is lost in the middle of a transfer, only its own channel fails.
#include <anello/anello.h>

#include <Eigen/Core>

#include <cstdint>
#include <stdexcept>

namespace parameter_server {

// Sent to rank 0 after each gradient. Small enough to travel eagerly, so that it has arrived as a whole or not at all.
struct Announcement {
  double loss;          // summed over the images
  std::int64_t images;  // of the gradient
  std::int64_t last;    // 1: this worker needs no weights any more
};
inline constexpr int kAnnouncement = 1, kWeights = 2, kGradient = 3, kEnd = 4;  // tags

// Throws the text of a failed call on comm, which says what it was for.
void check(anello_comm_t comm, anello_result_t result, const char* what);

class Channel {
 public:
  // Collective between rank 0 and the worker.
  Channel(anello_comm_t all, int worker);
  // Ends the transfers in flight.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  anello_comm_t handle() const { return comm_; }

 private:
  anello_comm_t comm_ = ANELLO_COMM_NULL;
};

}  // namespace parameter_server
