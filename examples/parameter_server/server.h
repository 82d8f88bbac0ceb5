#pragma once
// Rank 0: it has the weights, applies the workers' gradients to them, and gives each worker the result.
#include "client.h"
#include "network.h"
#include "progress.h"
#include "settings.h"

#include <memory>
#include <vector>

namespace parameter_server {

class Server {
 public:
  // Collective with the workers' channels.
  Server(anello_comm_t all, int workers, fashion::Network& network, const Settings& settings, Progress& progress);

  // Returns when every worker has sent its last gradient. A worker that is lost before ends Mode::synchronous with an
  // exception that names it; the other modes go on with the rest, unless there is none.
  void run();

 private:
  void run_synchronous();
  void run_asynchronous();
  // The next announcement, from any worker; false if all have gone.
  bool next(Announcement* announcement, int* worker);
  void apply(const Client& client, const Eigen::VectorXf& gradient, float rate);
  void drop_lost();
  int active() const;

  const anello_comm_t all_;
  fashion::Network& network_;
  const Settings& settings_;
  Progress& progress_;
  std::vector<std::unique_ptr<Client>> clients_;  // of rank 1, 2, ..
};

}  // namespace parameter_server
