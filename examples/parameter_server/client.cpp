#include "client.h"

namespace parameter_server {

Client::Client(anello_comm_t all, int worker, Eigen::Index weights)
    : worker_(worker), weights_(weights), gradient_(weights), channel_(all, worker) {}

Client::~Client() {
  // Both use memory of this object, so they must have ended; those of a lost worker have failed.
  if (active_ || !why_lost_.empty()) (void)anello_comm_abort(channel_.handle(), "the server ends");
  (void)anello_wait(&sending_, nullptr);
  (void)anello_wait(&receiving_, nullptr);
}

bool Client::holds(anello_result_t result) {
  if (result != ANELLO_OK) lose(anello_last_error(channel_.handle()));
  return result == ANELLO_OK;
}

void Client::lose(const std::string& why) {
  newly_lost_ = active_;
  active_ = false;
  if (newly_lost_) why_lost_ = why;
}

void Client::give(const Eigen::VectorXf& weights, std::int64_t version) {
  if (!holds(anello_wait(&sending_, nullptr))) return;
  weights_ = weights;
  version_ = version;
  const auto count = static_cast<std::size_t>(weights_.size());
  if (!holds(anello_irecv(gradient_.data(), count, ANELLO_FLOAT32, 1, kGradient, channel_.handle(), &receiving_)))
    return;
  holds(anello_isend(weights_.data(), count, ANELLO_FLOAT32, 1, kWeights, channel_.handle(), &sending_));
}

const Eigen::VectorXf* Client::take() { return holds(anello_wait(&receiving_, nullptr)) ? &gradient_ : nullptr; }

bool Client::is_lost() {
  int done = 0;
  return !holds(anello_test(&receiving_, &done, nullptr));
}

}  // namespace parameter_server
