// Rows 2 and 4: the rates, compared with a copy on the same device in the same run.
#include "gpu/check.h"
#include "gpu/rows.h"

#include "base/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace gpu {
namespace {

constexpr double kTera = 1e12;

// Fills memory with random numbers near one, so that the measurement contains no denormals and no power-saving pattern.
class Buffers {
 public:
  Buffers(Device& device, int number, std::size_t bytes) {
    std::mt19937 random(7);
    std::vector<std::uint32_t> block(std::min<std::size_t>(bytes / 4, std::size_t{1} << 22));
    for (auto& word : block) word = 0x3f803f80u | (random() & 0x007f007fu);
    for (int i = 0; i < number; ++i) {
      all_.push_back(std::make_unique<Memory>(device.driver(), bytes + 64));
      for (std::size_t at = 0; at < bytes; at += 4 * block.size()) {
        device.upload(all_.back()->at(at), block.data(), std::min(4 * block.size(), bytes - at));
      }
    }
    device.wait();
  }
  unsigned char* operator[](int i) const { return all_[static_cast<std::size_t>(i)]->at(); }

 private:
  std::vector<std::unique_ptr<Memory>> all_;
};

struct Shape {
  int sources = 2, destinations = 1;
  std::size_t source_shift = 0,
              destination_shift = 0;  // bytes; if offsets differ, source s is shifted s + 1 times the first
  bool shifts_differ = false, in_place = false;
  int ctas = 0;
  const void* factor = nullptr;
};

CudaReduction shaped(const Buffers& buffers, anello_dtype_t dtype, anello_op_t op, std::size_t bytes,
                     const Shape& shape) {
  CudaReduction reduction{dtype, op, {}, {}, (bytes - 64) / anello::dtype_bytes(dtype), 2};
  for (int s = 0; s < shape.sources; ++s) {
    const std::size_t times = shape.shifts_differ ? static_cast<std::size_t>(s) + 1 : 1;
    reduction.sources.push_back(buffers[s] + times * shape.source_shift);
  }
  for (int d = 0; d < shape.destinations; ++d) {
    reduction.destinations.push_back(buffers[shape.in_place ? d : shape.sources + d] + shape.destination_shift);
  }
  reduction.factor = shape.factor;
  reduction.ctas = shape.ctas;
  return reduction;
}

double tera(const CudaReduction& reduction, double ms) {
  const double bytes = static_cast<double>(reduction.count) *
                       static_cast<double>(anello::dtype_bytes(reduction.dtype)) *
                       static_cast<double>(reduction.sources.size() + reduction.destinations.size());
  return bytes / (ms * 1e-3) / kTera;
}

struct Rate {
  double best, spread;  // of two medians of 20; as a part of the best
};

Rate rate(Device& device, const CudaReduction& reduction) {
  double rates[2];
  for (double& one : rates) one = tera(reduction, device.median_ms([&](int) { device.reduce(reduction); }));
  const double best = std::max(rates[0], rates[1]);
  return {best, (best - std::min(rates[0], rates[1])) / best};
}

std::string note_of(const Rate& rate, double copy) {
  char text[96];
  std::snprintf(text, sizeof text, "%.3f TB/s, B = %.3f TB/s, spread %.1f %%", rate.best, copy, 100 * rate.spread);
  return text;
}

Check beside_copy(const std::string& name, const Rate& rate, double copy, double bound) {
  return at_least(name, rate.best / copy, bound, "B", note_of(rate, copy));
}

}  // namespace

double copy_rate(Device& device, std::size_t bytes) {
  const Buffers buffers(device, 2, bytes);
  const double ms = device.median_ms([&](int) { device.copy(buffers[1], buffers[0], bytes); });
  return 2 * static_cast<double>(bytes) / (ms * 1e-3) / kTera;
}

void roofline(Device& device, const Sizes& sizes) {
  const std::size_t bytes = 4 * sizes.large;
  const double first = copy_rate(device, bytes), second = copy_rate(device, bytes);
  const double best = std::max(first, second);
  const std::string name = device.name();
  const double bound = name.find("H100") != std::string::npos ? 2.8 : name.find("H200") != std::string::npos ? 4.0 : 0;
  write(bound > 0 ? at_least("B: copy on the device", best, bound, "TB/s")
                  : reported("B: copy on the device", best, "TB/s"));
  write(at_most("B: spread of two runs", 100 * std::abs(first - second) / best, 2, "%"));
  {
    const Buffers buffers(device, 1, bytes);
    const double ms = device.median_ms([&](int) { device.fill(buffers[0], 1, bytes); });
    write(reported("memset", static_cast<double>(bytes) / (ms * 1e-3) / kTera, "TB/s"));
  }
  const std::size_t pinned_bytes = std::min(sizes.large, std::size_t{64} << 20);
  void* pinned = nullptr;
  device.check("cuMemHostAlloc", device.driver().allocate_pinned(&pinned, pinned_bytes, 0));
  std::memset(pinned, 1, pinned_bytes);
  {
    const Buffers buffers(device, 1, pinned_bytes);
    const double up = device.median_ms([&](int) { device.upload(buffers[0], pinned, pinned_bytes); });
    const double down = device.median_ms([&](int) { device.download(pinned, buffers[0], pinned_bytes); });
    write(reported("pinned host to device", static_cast<double>(pinned_bytes) / (up * 1e-3) / 1e9, "GB/s"));
    write(reported("device to pinned host", static_cast<double>(pinned_bytes) / (down * 1e-3) / 1e9, "GB/s"));
    CudaReduction one{ANELLO_FLOAT32, ANELLO_SUM, {buffers[0], buffers[0] + 16}, {buffers[0] + 32}, 1};
    write(reported("smallest reduction, launched", 1e3 * device.median_ms([&](int) { device.reduce(one); }), "us"));
    write(reported("smallest reduction, in a graph of 20", 1e3 * device.replayed_ms([&](int) { device.reduce(one); }),
                   "us"));
  }
  device.check("cuMemFreeHost", device.driver().release_pinned(pinned));
}

void rates(Device& device, const Sizes& sizes) {
  const double copy = copy_rate(device, sizes.large);
  const Buffers buffers(device, 3, sizes.large);
  const struct {
    anello_dtype_t dtype;
    double bound;
  } rows[] = {{ANELLO_FLOAT32, 0.95}, {ANELLO_BFLOAT16, 0.95}, {ANELLO_FLOAT16, 0.95},     {ANELLO_FLOAT64, 0.95},
              {ANELLO_INT8, 0.90},    {ANELLO_UINT8, 0.90},    {ANELLO_FLOAT8_E4M3, 0.90}, {ANELLO_FLOAT8_E5M2, 0.90}};
  for (const auto& row : rows) {
    write(beside_copy(std::string("sum of 2 ") + anello::dtype_name(row.dtype),
                      rate(device, shaped(buffers, row.dtype, ANELLO_SUM, sizes.large, {})), copy, row.bound));
  }
}

void operations(Device& device, const Sizes& sizes) {
  const double copy = copy_rate(device, sizes.large);
  const Buffers buffers(device, 3, sizes.large);
  for (const anello_dtype_t dtype :
       {ANELLO_FLOAT32, ANELLO_BFLOAT16, ANELLO_INT32, ANELLO_FLOAT8_E4M3, ANELLO_FLOAT8_E5M2}) {
    const double sum = rate(device, shaped(buffers, dtype, ANELLO_SUM, sizes.large, {})).best;
    for (const anello_op_t op : {ANELLO_MIN, ANELLO_MAX, ANELLO_PROD, ANELLO_AVG}) {
      const Rate found = rate(device, shaped(buffers, dtype, op, sizes.large, {}));
      const bool divides_bytes = op == ANELLO_AVG && anello::dtype_bytes(dtype) == 1;
      write(at_least(std::string(anello::op_name(op)) + " of 2 " + anello::dtype_name(dtype) + " beside sum",
                     found.best / sum, divides_bytes ? 0.80 : 0.95, "of sum", note_of(found, copy)));
    }
  }
  for (const anello_dtype_t dtype : {ANELLO_FLOAT32, ANELLO_BFLOAT16, ANELLO_UINT8}) {
    const std::size_t element = anello::dtype_bytes(dtype);
    const std::string name = std::string("sum of 2 ") + anello::dtype_name(dtype);
    write(beside_copy(name + ", all one element off",
                      rate(device, shaped(buffers, dtype, ANELLO_SUM, sizes.large, {2, 1, element, element})), copy,
                      0.90));
    write(beside_copy(name + ", each off otherwise",
                      rate(device, shaped(buffers, dtype, ANELLO_SUM, sizes.large, {2, 1, element, 0, true})), copy,
                      0.50));
    write(beside_copy(name + ", in place",
                      rate(device, shaped(buffers, dtype, ANELLO_SUM, sizes.large, {2, 1, 0, 0, false, true})), copy,
                      0.90));
  }
}

void shapes(Device& device, const Sizes& sizes) {
  const double copy = copy_rate(device, sizes.large);
  const Buffers buffers(device, 9, sizes.large);
  const float half = 0.5f;
  for (const anello_dtype_t dtype : {ANELLO_FLOAT32, ANELLO_BFLOAT16}) {
    const std::string name = std::string(" ") + anello::dtype_name(dtype);
    const auto measured = [&](const char* what, const Shape& shape, double bound) {
      write(
          beside_copy(what + name, rate(device, shaped(buffers, dtype, ANELLO_SUM, sizes.large, shape)), copy, bound));
    };
    measured("sum of 2 to 2", {2, 2}, 0.95);
    measured("sum of 4", {4, 1}, 0.93);
    measured("sum of 8", {8, 1}, 0.93);
    measured("copy of 1 to 1", {1, 1}, 0.95);
  }
  Shape scale{1, 1};
  scale.factor = &half;
  write(beside_copy("scale of 1 float32", rate(device, shaped(buffers, ANELLO_FLOAT32, ANELLO_SUM, sizes.large, scale)),
                    copy, 0.95));
}

void beside_others(Device& device, const Sizes& sizes) {
  const struct {
    anello_dtype_t dtype;
    const char* name;
  } types[] = {{ANELLO_FLOAT32, "float32"}, {ANELLO_BFLOAT16, "bfloat16"}};
  for (const std::size_t mebibytes : {1, 16, 64, 256, 1024}) {
    const std::size_t bytes = mebibytes << 20;
    if (bytes > 4 * sizes.large) continue;
    const Buffers buffers(device, 3, bytes + 64);
    for (const auto& type : types) {
      const CudaReduction sum = shaped(buffers, type.dtype, ANELLO_SUM, bytes + 64, {});
      const std::string name = std::string(type.name) + " " + std::to_string(mebibytes) + " MiB";
      write(reported(name + " launched", 1e3 * device.median_ms([&](int) { device.reduce(sum); }), "us"));
      write(reported(name + " replayed", 1e3 * device.replayed_ms([&](int) { device.reduce(sum); }), "us"));
    }
  }
}

void curve(Device& device, const Sizes& sizes) {
  const Buffers buffers(device, 3, sizes.large);
  const int most = device.attribute(anello::kernels::cuda::kMultiprocessors);
  std::vector<int> steps = {1, 2, 4, 8, 16, 32, 64};
  steps.push_back(most);
  steps.push_back(2 * most);
  for (const int ctas : steps) {
    Shape shape;
    shape.ctas = ctas;
    const double found = rate(device, shaped(buffers, ANELLO_FLOAT32, ANELLO_SUM, sizes.large, shape)).best;
    const std::string name = std::to_string(ctas) + " CTAs";
    write(ctas == 16 ? at_least(name, found, 0.5, "TB/s") : reported(name, found, "TB/s"));
  }
}

}  // namespace gpu
