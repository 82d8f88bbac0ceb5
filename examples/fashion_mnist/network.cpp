#include "network.h"

#include <cmath>
#include <random>

namespace fashion {
namespace {

// Every block of the flat buffer begins at a multiple of 64 bytes (Eigen's alignment permitting), with zeros between,
// so the alignment for vector instructions does not depend on the widths.
constexpr Eigen::Index kBlock = 16;

Eigen::Index rounded_up(Eigen::Index count) { return (count + kBlock - 1) / kBlock * kBlock; }

using Weights = Eigen::Map<Eigen::MatrixXf, Eigen::Aligned16>;
using Biases = Eigen::Map<Eigen::VectorXf, Eigen::Aligned16>;

}  // namespace

Network::Network(std::vector<int> widths) {
  Eigen::Index end = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    Layer layer{widths[i], widths[i + 1], end, 0, {}, {}};
    layer.biases = end + rounded_up(Eigen::Index{layer.inputs} * layer.outputs);
    end = layer.biases + rounded_up(layer.outputs);
    layers_.push_back(std::move(layer));
  }
  parameters_ = Eigen::VectorXf::Zero(end);
}

std::vector<Network::Block> Network::blocks() const {
  std::vector<Block> all;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const std::string name = "layer" + std::to_string(l + 1);
    all.push_back({name + ".weights", layer.weights, Eigen::Index{layer.inputs} * layer.outputs});
    all.push_back({name + ".biases", layer.biases, layer.outputs});
  }
  return all;
}

void Network::randomize(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const Layer& layer : layers_) {
    const float limit = std::sqrt(6.0f / static_cast<float>(layer.inputs));
    for (Eigen::Index i = 0; i < Eigen::Index{layer.inputs} * layer.outputs; ++i) {
      const float unit = static_cast<float>(random() >> 40) * 0x1p-24f;  // 0 to 1, the same in every standard library
      parameters_[layer.weights + i] = limit * (2.0f * unit - 1.0f);
    }
  }
}

void Network::forward(const Eigen::MatrixXf& images) {
  const Eigen::MatrixXf* input = &images;
  for (Layer& layer : layers_) {
    const Weights weights(parameters_.data() + layer.weights, layer.outputs, layer.inputs);
    const Biases biases(parameters_.data() + layer.biases, layer.outputs);
    layer.activations.noalias() = weights * *input;
    layer.activations.colwise() += biases;
    if (&layer != &layers_.back()) layer.activations = layer.activations.cwiseMax(0.0f);
    input = &layer.activations;
  }
}

double Network::gradient(const Eigen::MatrixXf& images, const std::vector<int>& labels, Eigen::VectorXf* gradient,
                         const std::function<void(std::size_t i)>& done) {
  forward(images);
  gradient->setZero(parameters_.size());

  // Softmax and cross-entropy, image by image.
  Layer& last = layers_.back();
  const float share = 1.0f / static_cast<float>(labels.size());
  double loss = 0;
  last.errors.resize(last.outputs, images.cols());
  for (Eigen::Index i = 0; i < images.cols(); ++i) {
    const float highest = last.activations.col(i).maxCoeff();
    float total = 0;
    for (int kind = 0; kind < last.outputs; ++kind) {
      last.errors(kind, i) = std::exp(last.activations(kind, i) - highest);
      total += last.errors(kind, i);
    }
    const int label = labels[static_cast<std::size_t>(i)];
    loss += std::log(static_cast<double>(total)) - static_cast<double>(last.activations(label, i) - highest);
    last.errors.col(i) *= share / total;
    last.errors(label, i) -= share;
  }

  for (std::size_t l = layers_.size(); l-- > 0;) {
    Layer& layer = layers_[l];
    const Eigen::MatrixXf& input = l == 0 ? images : layers_[l - 1].activations;
    Weights weight_gradient(gradient->data() + layer.weights, layer.outputs, layer.inputs);
    Biases bias_gradient(gradient->data() + layer.biases, layer.outputs);
    weight_gradient.noalias() = layer.errors * input.transpose();
    bias_gradient = layer.errors.rowwise().sum();
    done(2 * l + 1);
    done(2 * l);
    if (l == 0) break;
    const Weights weights(parameters_.data() + layer.weights, layer.outputs, layer.inputs);
    Layer& below = layers_[l - 1];
    below.errors.noalias() = weights.transpose() * layer.errors;
    below.errors = (below.activations.array() > 0.0f).select(below.errors, 0.0f);
  }
  return loss;
}

std::int64_t Network::count_correct(const Eigen::MatrixXf& images, const std::vector<int>& labels) {
  forward(images);
  std::int64_t correct = 0;
  for (Eigen::Index i = 0; i < images.cols(); ++i) {
    Eigen::Index likeliest = 0;
    layers_.back().activations.col(i).maxCoeff(&likeliest);
    if (likeliest == labels[static_cast<std::size_t>(i)]) ++correct;
  }
  return correct;
}

std::uint64_t hash_of(const Eigen::VectorXf& parameters) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(parameters.data());
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < static_cast<std::size_t>(parameters.size()) * sizeof(float); ++i) {
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace fashion
