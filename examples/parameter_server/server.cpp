#include "server.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace parameter_server {

Server::Server(anello_comm_t all, int workers, fashion::Network& network, const Settings& settings, Progress& progress)
    : all_(all), network_(network), settings_(settings), progress_(progress) {
  for (int worker = 1; worker <= workers; ++worker) {
    clients_.push_back(std::make_unique<Client>(all, worker, network.parameters().size()));
  }
}

void Server::run() {
  progress_.begin();
  for (const auto& client : clients_) client->give(network_.parameters(), 0);
  settings_.mode == Mode::synchronous ? run_synchronous() : run_asynchronous();
}

int Server::active() const {
  return static_cast<int>(
      std::count_if(clients_.begin(), clients_.end(), [](const auto& each) { return each->is_active(); }));
}

void Server::run_synchronous() {
  Eigen::VectorXf sum;
  while (active() > 0) {
    // In the order of ranks, so that every run adds in the same order. The gradients arrive meanwhile in any order.
    for (const auto& client : clients_) {
      Announcement announcement{};
      check(
          all_,
          anello_recv(&announcement, sizeof announcement, ANELLO_BYTE, client->worker(), kAnnouncement, all_, nullptr),
          "waiting for a gradient");
      const Eigen::VectorXf* const gradient = client->take();
      if (gradient == nullptr) throw std::runtime_error("receiving a gradient: " + client->why_lost());
      if (client == clients_.front()) {
        sum = *gradient;
      } else {
        sum += *gradient;
      }
      progress_.count_gradient(announcement.images, announcement.loss, progress_.updates() - client->version());
      if (announcement.last != 0) client->leave();
    }
    network_.parameters() -= progress_.rate() / static_cast<float>(clients_.size()) * sum;
    progress_.count_update(network_);
    for (const auto& client : clients_) {
      if (client->is_active()) client->give(network_.parameters(), progress_.updates());
    }
  }
}

void Server::run_asynchronous() {
  Announcement announcement{};
  int worker = 0;
  while (active() > 0 && next(&announcement, &worker)) {
    Client& client = *clients_[static_cast<std::size_t>(worker - 1)];
    const Eigen::VectorXf* const gradient = client.is_active() ? client.take() : nullptr;
    if (gradient != nullptr) {
      const float rate = progress_.rate();
      progress_.count_gradient(announcement.images, announcement.loss, progress_.updates() - client.version());
      apply(client, *gradient, rate);
      progress_.count_update(network_);
      if (announcement.last != 0) {
        client.leave();
      } else {
        client.give(network_.parameters(), progress_.updates());
      }
    }
    drop_lost();
  }
  drop_lost();
  if (std::none_of(clients_.begin(), clients_.end(), [](const auto& each) { return each->why_lost().empty(); })) {
    throw std::runtime_error("all workers are lost");
  }
}

void Server::apply(const Client& client, const Eigen::VectorXf& gradient, float rate) {
  if (settings_.mode != Mode::compensated) {
    network_.parameters() -= rate * gradient;
    return;
  }
  // Zheng et al., Asynchronous Stochastic Gradient Descent with Delay Compensation (2017): the gradient at the present
  // weights, to first order, with the squares of the gradient in place of the Hessian's diagonal.
  const auto moved = network_.parameters().array() - client.weights().array();
  network_.parameters() -=
      (rate * (gradient.array() + settings_.compensation * gradient.array().square() * moved)).matrix().eval();
}

bool Server::next(Announcement* announcement, int* worker) {
  anello_status_t status{};
  const anello_result_t result =
      anello_recv(announcement, sizeof *announcement, ANELLO_BYTE, ANELLO_ANY_SOURCE, kAnnouncement, all_, &status);
  *worker = status.source;
  if (result != ANELLO_ERR_PEER_LOST) {
    check(all_, result, "waiting for a gradient");
    return true;
  }
  for (const auto& client : clients_) {
    if (client->is_active()) client->lose(anello_last_error(all_));
  }
  return false;
}

void Server::drop_lost() {
  for (const auto& client : clients_) {
    if (client->is_active()) client->is_lost();
    if (client->is_newly_lost()) progress_.lose(client->worker(), active(), client->why_lost().c_str());
  }
}

}  // namespace parameter_server
