#pragma once
// Averages the gradients over all ranks: with one all-reduce after the backward pass, or bucket by bucket during it.
#include "communicator.h"
#include "network.h"
#include "timeline.h"

#include <anello/gradient_sync.h>

#include <cstddef>
#include <vector>

namespace fashion {

enum class Sync { flat, buckets };

class Gradients {
 public:
  // Takes the network's blocks, which lie in `flat`; its address must not change. Collective.
  Gradients(Communicator& communicator, const std::vector<Network::Block>& blocks, Eigen::VectorXf& flat, Sync sync,
            std::size_t bucket_bytes);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  void begin();
  void ready(std::size_t block);  // block i of the flat vector is complete
  void wait();                    // after it, all of the vector is the average
  double seconds_inside() const { return seconds_inside_; }

  std::size_t buckets() const;  // 0: flat
  // The last step on this rank, and one line over all steps and ranks (collective).
  Timeline timeline() const;
  std::string summary();

 private:
  Communicator& communicator_;
  const std::vector<Network::Block> blocks_;
  Eigen::VectorXf& flat_;
  anello_gradient_sync_t sync_ = ANELLO_GRADIENT_SYNC_NULL;  // none: flat
  Clock::time_point begun_;
  std::vector<double> ready_;  // when each block was ready, in seconds from begin
  double wait_from_ = 0, wait_until_ = 0;
  double seconds_inside_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace fashion
