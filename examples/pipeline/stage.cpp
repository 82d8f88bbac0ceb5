#include "stage.h"

#include <cmath>
#include <cstring>
#include <random>

namespace pipeline {

Stage::Stage(const std::vector<std::size_t>& widths, std::size_t first, std::size_t end, std::size_t micro_batches) {
  for (std::size_t l = first; l < end; ++l) {
    Layer layer{l, widths[l], widths[l + 1], l + 2 == widths.size(), {}, {}, {}, {}};
    std::mt19937 random(static_cast<unsigned>(l + 1));  // by layer, not by rank
    const float limit = std::sqrt(6.0f / static_cast<float>(layer.inputs + layer.outputs));
    layer.weights.resize((layer.inputs + 1) * layer.outputs);
    for (std::size_t i = 0; i < layer.inputs * layer.outputs; ++i) {
      layer.weights[i] = limit * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
    }
    layer.weight_gradient.resize(layer.weights.size());
    layer.inputs_of.resize(micro_batches);
    layer.outputs_of.resize(micro_batches);
    layers_.push_back(std::move(layer));
  }
}

const Matrix& Stage::forward(std::size_t micro_batch, Matrix input) {
  for (Layer& layer : layers_) {
    Matrix output(input.rows, layer.outputs);
    const float* const biases = layer.weights.data() + layer.inputs * layer.outputs;
    for (std::size_t row = 0; row < input.rows; ++row) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        float sum = biases[o];
        for (std::size_t i = 0; i < layer.inputs; ++i) sum += layer.weights[o * layer.inputs + i] * input.at(row, i);
        output.at(row, o) = layer.last ? sum : std::tanh(sum);
      }
    }
    layer.inputs_of[micro_batch] = std::move(input);
    layer.outputs_of[micro_batch] = output;
    input = std::move(output);
  }
  return layers_.back().outputs_of[micro_batch];
}

Matrix Stage::backward(std::size_t micro_batch, Matrix gradient) {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    Layer& layer = layers_[l];
    const Matrix& input = layer.inputs_of[micro_batch];
    const Matrix& output = layer.outputs_of[micro_batch];
    float* const biases = layer.weight_gradient.data() + layer.inputs * layer.outputs;
    Matrix below(input.rows, layer.inputs);
    for (std::size_t row = 0; row < input.rows; ++row) {
      for (std::size_t o = 0; o < layer.outputs; ++o) {
        const float bend = layer.last ? 1.0f : 1.0f - output.at(row, o) * output.at(row, o);
        const float error = gradient.at(row, o) * bend;
        biases[o] += error;
        for (std::size_t i = 0; i < layer.inputs; ++i) {
          layer.weight_gradient[o * layer.inputs + i] += error * input.at(row, i);
          below.at(row, i) += error * layer.weights[o * layer.inputs + i];
        }
      }
    }
    gradient = std::move(below);
  }
  return gradient;
}

void Stage::update(float rate) {
  for (Layer& layer : layers_) {
    for (std::size_t i = 0; i < layer.weights.size(); ++i) layer.weights[i] -= rate * layer.weight_gradient[i];
    layer.weight_gradient.assign(layer.weights.size(), 0.0f);
  }
}

std::uint64_t Stage::hash() const {
  std::uint64_t all = 0;
  for (const Layer& layer : layers_) {
    std::uint64_t hash = 0xcbf29ce484222325u + layer.index;
    for (const float weight : layer.weights) {
      std::uint32_t bits;
      std::memcpy(&bits, &weight, sizeof bits);
      hash = (hash ^ bits) * 0x100000001b3u;
    }
    all ^= hash;
  }
  return all;
}

}  // namespace pipeline
