#include "dataset.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace fashion {
namespace {

constexpr std::uint32_t kMostItems = 1000000;

class IdxFile {
 public:
  explicit IdxFile(std::string path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
    if (!file_) throw std::runtime_error(path_ + ": " + std::strerror(errno));
  }

  void read(void* into, std::size_t bytes) {
    const int got = gzread(file_.get(), into, static_cast<unsigned>(bytes));
    if (got < 0 || static_cast<std::size_t>(got) != bytes) fail("is damaged or too short");
  }

  std::uint32_t read_number() {
    unsigned char bytes[4];
    read(bytes, sizeof bytes);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
  }

  void expect(std::uint32_t number, const char* what) {
    if (read_number() != number) fail(std::string("has another ") + what + " than Fashion-MNIST");
  }

  // The number of items that follow.
  std::uint32_t read_count() {
    const std::uint32_t count = read_number();
    if (count == 0 || count > kMostItems) fail("claims an impossible number of items");
    return count;
  }

  [[noreturn]] void fail(const std::string& why) const { throw std::runtime_error(path_ + " " + why); }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace

Dataset load_dataset(const std::string& directory, const std::string& name) {
  Dataset dataset;
  IdxFile images(directory + "/" + name + "-images-idx3-ubyte.gz");
  images.expect(0x00000803, "kind of contents");
  const std::uint32_t count = images.read_count();
  images.expect(28, "height");
  images.expect(28, "width");
  dataset.pixels.resize(std::size_t{count} * kPixels);
  images.read(dataset.pixels.data(), dataset.pixels.size());

  IdxFile labels(directory + "/" + name + "-labels-idx1-ubyte.gz");
  labels.expect(0x00000801, "kind of contents");
  if (labels.read_count() != count) labels.fail("has another number of items than the images");
  dataset.labels.resize(count);
  labels.read(dataset.labels.data(), count);
  for (const std::uint8_t label : dataset.labels) {
    if (label >= kKinds) labels.fail("has a label that is no kind of clothing");
  }
  return dataset;
}

void gather(const Dataset& dataset, const std::int64_t* chosen, std::size_t count, Eigen::MatrixXf& images,
            std::vector<int>& labels) {
  // Mean and deviation of the training pixels, in units of full white.
  constexpr float kMean = 0.2860f, kDeviation = 0.3530f;
  images.resize(kPixels, static_cast<Eigen::Index>(count));
  labels.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Eigen::Map<const Eigen::Matrix<std::uint8_t, kPixels, 1>> pixels(
        dataset.pixels.data() + static_cast<std::size_t>(chosen[i]) * kPixels);
    images.col(static_cast<Eigen::Index>(i)) =
        (pixels.cast<float>().array() * (1.0f / (255.0f * kDeviation)) - kMean / kDeviation).matrix();
    labels[i] = dataset.labels[static_cast<std::size_t>(chosen[i])];
  }
}

}  // namespace fashion
