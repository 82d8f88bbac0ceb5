#pragma once
// The layers of a network that one rank of the pipeline holds: forward and backward over one micro-batch at a time.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipeline {

// One row per sample.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(std::size_t its_rows, std::size_t its_columns)
      : rows(its_rows), columns(its_columns), values(rows * columns) {}
  float& at(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

class Stage {
 public:
  // widths: of the whole network, inputs first. This stage has layers first .. end-1 of it.
  Stage(const std::vector<std::size_t>& widths, std::size_t first, std::size_t end, std::size_t micro_batches);

  std::size_t inputs() const { return layers_.front().inputs; }
  std::size_t outputs() const { return layers_.back().outputs; }

  const Matrix& forward(std::size_t micro_batch, Matrix input);
  // gradient: the gradient of the loss by forward's result for the micro-batch. Returns the gradient by its input, and
  // accumulates the weights' gradients.
  Matrix backward(std::size_t micro_batch, Matrix gradient);
  // Applies gradient descent with the accumulated gradients and sets them to zero.
  void update(float rate);
  // The hash of all weights; layers' hashes combine by exclusive or, so that the assignment of layers to ranks does not
  // matter.
  std::uint64_t hash() const;

 private:
  struct Layer {
    std::size_t index, inputs, outputs;
    bool last;                                    // the network's last layer: its outputs have no activation function
    std::vector<float> weights, weight_gradient;  // outputs x inputs, then one bias per output
    std::vector<Matrix> inputs_of, outputs_of;    // for each micro-batch, for the backward pass
  };
  std::vector<Layer> layers_;
};

}  // namespace pipeline
