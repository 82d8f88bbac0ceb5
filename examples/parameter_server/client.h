#pragma once
// The server's end of one worker: its channel, the weights that it has, and the gradient that it will send.
#include "channel.h"

#include <cstdint>
#include <string>
#include <utility>

namespace parameter_server {

class Client {
 public:
  // Collective with the worker. weights: how many.
  Client(anello_comm_t all, int worker, Eigen::Index weights);
  ~Client();

  int worker() const { return worker_; }
  bool is_active() const { return active_; }
  const std::string& why_lost() const { return why_lost_; }  // empty: not lost
  // Whether the worker was lost since the last time that this was asked.
  bool is_newly_lost() { return std::exchange(newly_lost_, false); }
  // The weights that the worker computes with, and the number of updates that they contain.
  const Eigen::VectorXf& weights() const { return weights_; }
  std::int64_t version() const { return version_; }

  // Starts to send the weights, and to receive the gradient that they lead to. Does not wait for the worker.
  void give(const Eigen::VectorXf& weights, std::int64_t version);
  // The announced gradient, valid until the next give; null if the worker is lost.
  const Eigen::VectorXf* take();
  // Whether the worker was lost. Looks once.
  bool is_lost();
  void leave() { active_ = false; }
  void lose(const std::string& why);

 private:
  bool holds(anello_result_t result);  // otherwise the worker is lost

  const int worker_;
  bool active_ = true, newly_lost_ = false;
  std::string why_lost_;
  std::int64_t version_ = 0;
  Eigen::VectorXf weights_, gradient_;
  anello_request_t sending_ = ANELLO_REQUEST_NULL, receiving_ = ANELLO_REQUEST_NULL, ending_ = ANELLO_REQUEST_NULL;
  Channel channel_;
};

}  // namespace parameter_server
