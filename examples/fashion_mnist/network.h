#pragma once
// A multilayer perceptron whose parameters lie in one flat buffer, as do its gradients, so that one all-reduce handles
// all.
#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fashion {

class Network {
 public:
  // widths: pixels, hidden layers, kinds. All parameters are 0 until randomize or a broadcast.
  explicit Network(std::vector<int> widths);

  void randomize(std::uint64_t seed);
  Eigen::VectorXf& parameters() { return parameters_; }
  const Eigen::VectorXf& parameters() const { return parameters_; }

  // The pieces of the flat buffers: each layer's weights, then its biases, from the first layer on.
  struct Block {
    std::string name;
    Eigen::Index begin;
    Eigen::Index count;
  };
  std::vector<Block> blocks() const;

  // Forward and backward over a batch (a column per image): *gradient becomes that of the mean loss over the batch.
  // Returns the sum of the losses (cross-entropy, natural logarithm). The bits depend only on the input and its shape.
  // Calls done(i) when block i of *gradient is complete, before the earlier blocks are computed.
  double gradient(const Eigen::MatrixXf& images, const std::vector<int>& labels, Eigen::VectorXf* gradient,
                  const std::function<void(std::size_t i)>& done);
  // The number of images whose label is predicted as the most likely one.
  std::int64_t count_correct(const Eigen::MatrixXf& images, const std::vector<int>& labels);

 private:
  struct Layer {
    int inputs;
    int outputs;
    Eigen::Index weights;  // their beginning in the flat buffer
    Eigen::Index biases;
    Eigen::MatrixXf activations;  // after the rectifier; the raw scores in the last layer
    Eigen::MatrixXf errors;       // derivative of the loss by the input of the rectifier
  };

  void forward(const Eigen::MatrixXf& images);

  std::vector<Layer> layers_;
  Eigen::VectorXf parameters_;
};

// 64 bits that distinguish any two parameter sets for practical purposes (FNV-1a over their bytes).
std::uint64_t hash_of(const Eigen::VectorXf& parameters);

}  // namespace fashion
