// Row 3, for small floats: float32 sums as input or output, and the rounding of every upper half of a float32 and more.
#include "gpu/check.h"
#include "gpu/oracle.h"
#include "gpu/rows.h"

#include "test/support/operands.h"

#include <cstring>
#include <memory>
#include <sstream>

namespace gpu {
namespace {

using anello::kernels::Reducer;

constexpr std::size_t kGuard = 256;
constexpr unsigned char kPoison = 0xa5;

struct Case {
  anello_op_t op;
  int sources;
  bool sums_in, sums_out;
  std::size_t count, offset;
};

std::string described(anello_dtype_t dtype, const Case& one) {
  std::ostringstream text;
  text << anello::dtype_name(dtype) << ' ' << anello::op_name(one.op) << " of " << one.sources << ", count "
       << one.count << ", offset " << one.offset << (one.sums_in ? ", sums in" : "")
       << (one.sums_out ? ", sums out" : "");
  return text.str();
}

// Returns "" or the error. inputs: the first one is float32 if it holds sums.
std::string differs(Device& device, anello_dtype_t dtype, const Case& one, const std::vector<Bytes>& inputs) {
  const Reducer& host = anello::kernels::reducer(dtype, one.op);
  const std::size_t element = host.element_bytes, wide = host.accumulator_bytes;
  CudaReduction reduction{dtype, one.op, {}, {}, one.count, one.sources + 1};
  reduction.sums_in = one.sums_in;
  reduction.sums_out = one.sums_out;
  Bytes expected(one.count * wide);
  std::vector<std::unique_ptr<Memory>> memory;
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    const bool sums = s == 0 && one.sums_in;
    const std::size_t shift = one.offset * (sums ? wide : element);
    memory.push_back(std::make_unique<Memory>(device.driver(), inputs[s].size() + shift + 16));
    device.upload(memory.back()->at(shift), inputs[s].data(), inputs[s].size());
    reduction.sources.push_back(memory.back()->at(shift));
    if (sums) {
      expected = inputs[0];
    } else {
      (s == 0 ? host.widen : host.accumulate)(expected.data(), inputs[s].data(), one.count);
    }
  }
  if (!one.sums_out) {
    Bytes rounded(one.count * element);
    host.finish(rounded.data(), expected.data(), one.count, reduction.ranks);
    expected = rounded;
  }
  const std::size_t into_element = one.sums_out ? wide : element, bytes = expected.size() + 2 * kGuard;
  Bytes around(bytes, kPoison), got(bytes);
  std::copy(expected.begin(), expected.end(), around.begin() + kGuard);
  Memory into(device.driver(), bytes + 16 * into_element);
  const std::size_t start = one.offset * into_element;
  device.fill(into.at(start), kPoison, bytes);
  reduction.destinations = {into.at(start + kGuard)};
  device.reduce(reduction);
  device.download(got.data(), into.at(start), bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (got[i] == around[i]) continue;
    const bool inside = i >= kGuard && i - kGuard < expected.size();
    return described(dtype, one) + (inside ? ": element " + std::to_string((i - kGuard) / into_element) + " differs"
                                           : ": wrote outside of the result");
  }
  return "";
}

// Float32 patterns around every point where rounding to 16 or 8 bits may change, among others.
Bytes patterns(std::size_t count, std::uint32_t step, int pass, std::mt19937_64& random) {
  constexpr std::uint32_t kLow[] = {0x00, 0x01, 0xff};
  Bytes words(4 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t low = pass < 3 ? kLow[pass] : static_cast<std::uint32_t>(random() & 0xff);
    const std::uint32_t word = static_cast<std::uint32_t>(i) * step << 8 | low;
    std::memcpy(words.data() + 4 * i, &word, 4);
  }
  return words;
}

}  // namespace

std::string wrong_sums(Device& device, anello_dtype_t dtype, const Sizes& sizes, std::size_t& cases) {
  std::mt19937_64 random(20261122);
  for (const anello_op_t op : {ANELLO_SUM, ANELLO_PROD, ANELLO_AVG}) {
    for (const int sources : {1, 2, 3, 8}) {
      for (const int flags : {1, 2, 3}) {
        for (const std::size_t offset : {0, 1, 2, 4, 7, 8}) {
          const Case one{
              op, sources, (flags & 1) != 0, (flags & 2) != 0, offset == 0 ? std::size_t{70001} : 257 + offset, offset};
          std::vector<Bytes> inputs;
          for (int s = 0; s < sources; ++s) {
            inputs.push_back(
                anello::testing::operands(s == 0 && one.sums_in ? ANELLO_FLOAT32 : dtype, one.count, random));
          }
          ++cases;
          if (std::string wrong = differs(device, dtype, one, inputs); !wrong.empty()) return wrong;
        }
      }
    }
  }
  const std::uint32_t step = sizes.all_offsets ? 1 : 257;
  const std::size_t count = (std::size_t{1} << 24) / step;
  for (int pass = 0; pass < 4; ++pass) {
    ++cases;
    const Case one{ANELLO_SUM, 1, true, false, count, 0};
    if (std::string wrong = differs(device, dtype, one, {patterns(count, step, pass, random)}); !wrong.empty())
      return wrong;
  }
  return "";
}

}  // namespace gpu
