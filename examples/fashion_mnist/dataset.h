#pragma once
// The Fashion-MNIST images: 60,000 for training and 10,000 for testing, each with 28 by 28 grey pixels that show one of
// ten kinds of clothing.
#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fashion {

inline constexpr int kPixels = 28 * 28;
inline constexpr int kKinds = 10;

struct Dataset {
  std::vector<std::uint8_t> pixels;  // image i at i * kPixels
  std::vector<std::uint8_t> labels;  // 0..kKinds-1
  std::size_t size() const { return labels.size(); }
};

// Reads DIRECTORY/<name>-images-idx3-ubyte.gz and .../<name>-labels-idx1-ubyte.gz. Throws std::runtime_error that names
// the file if it is missing, damaged or has another shape.
Dataset load_dataset(const std::string& directory, const std::string& name);

// A column for each chosen image, with pixels shifted and scaled to mean 0 and deviation 1.
void gather(const Dataset& dataset, const std::int64_t* chosen, std::size_t count, Eigen::MatrixXf& images,
            std::vector<int>& labels);

}  // namespace fashion
