#pragma once
// Some layers of a network, those that one rank of the pipeline holds: forward and backward over one micro-batch at a
// time.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipeline {

// A row per sample.
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
  // gradient: of the loss by what forward gave for the micro-batch. Returns that by its input, and adds up the
  // weights'.
  Matrix backward(std::size_t micro_batch, Matrix gradient);
  // Gradient descent over what was added up, which is zero then.
  void update(float rate);
  // Of all weights; layers' hashes combine by exclusive or, so that it does not matter which rank holds which.
  std::uint64_t hash() const;

 private:
  struct Layer {
    std::size_t index, inputs, outputs;
    bool last;                                    // of the network: its outputs are not bent
    std::vector<float> weights, weight_gradient;  // outputs x inputs, then one bias an output
    std::vector<Matrix> inputs_of, outputs_of;    // of each micro-batch, for the way back
  };
  std::vector<Layer> layers_;
};

}  // namespace pipeline
