#include "client.h"

namespace parameter_server {

Client::Client(anello_comm_t all, int worker, Eigen::Index weights)
    : worker_(worker), weights_(weights), gradient_(weights), channel_(all, worker) {
  // The worker's last message. A worker may be lost when its gradient has arrived and its announcement has not, so that
  // nothing else of it is awaited here; this receive fails then.
  check(channel_.handle(), anello_irecv(nullptr, 0, ANELLO_BYTE, 1, kEnd, channel_.handle(), &ending_),
        "awaiting a worker's end");
}

Client::~Client() {
  // Those in flight use memory of this object, so they must have ended; those of a lost worker have failed.
  if (active_ || !why_lost_.empty()) (void)anello_comm_abort(channel_.handle(), "the server ends");
  (void)anello_wait(&sending_, nullptr);
  (void)anello_wait(&receiving_, nullptr);
  (void)anello_wait(&ending_, nullptr);
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
  return !holds(anello_test(&ending_, &done, nullptr));
}

}  // namespace parameter_server
