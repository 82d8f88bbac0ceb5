// Row 3: compares every type and operation with the host's functions, bit by bit. The memory around a result, and the
// sources, must be unchanged; a repeated call must give the same bits.
#include "gpu/check.h"
#include "gpu/oracle.h"
#include "gpu/rows.h"
#include "kernels/cuda/runs_as.h"

#include "test/support/operands.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>

namespace gpu {
namespace {

constexpr std::size_t kGuard = 256;  // bytes on both sides of a result
constexpr std::size_t kOffsets = 16;
constexpr unsigned char kPoison = 0xa5;
constexpr int kSources = 8;

struct Case {
  anello_op_t op;
  int sources;
  std::size_t count;
  std::size_t offsets[kSources + 1];  // in elements, for each source and for the destination
  bool in_place = false;              // the destination is the first source
  bool scales = false;
};

std::string described(anello_dtype_t dtype, const Case& one) {
  std::ostringstream text;
  text << anello::dtype_name(dtype) << ' ' << anello::op_name(one.op) << (one.scales ? " by a factor" : "") << ", "
       << one.sources << " sources, count " << one.count << ", offsets";
  for (int s = 0; s < one.sources; ++s) text << ' ' << one.offsets[s];
  if (one.in_place) {
    text << ", in place";
  } else {
    text << " to " << one.offsets[kSources];
  }
  return text.str();
}

// One type: its operands are on the device, with a copy here.
class Bench {
 public:
  Bench(Device& device, anello_dtype_t dtype, std::size_t count)
      : device_(device),
        dtype_(dtype),
        element_(anello::dtype_bytes(dtype)),
        room_((count + kOffsets) * element_ + 2 * kGuard) {
    std::mt19937_64 random(20261121 + static_cast<unsigned>(dtype));
    // All sources use one pool, each rotated by a different number of elements.
    const Bytes pool = anello::testing::operands(dtype, count + kOffsets, random);
    for (int s = 0; s < kSources; ++s) {
      Bytes turned(room_, kPoison);
      const auto by = static_cast<std::ptrdiff_t>(pool.size() / element_ * static_cast<std::size_t>(s) / 9 * element_);
      std::rotate_copy(pool.begin(), pool.begin() + by, pool.end(), turned.begin() + kGuard);
      host_.push_back(std::move(turned));
      memory_.push_back(std::make_unique<Memory>(device.driver(), room_));
      device.upload(memory_.back()->at(), host_.back().data(), room_);
      device.wait();
    }
    result_ = std::make_unique<Memory>(device.driver(), room_);
  }

  // Replaces the elements of source s from 0 on.
  void set_source(int s, const Bytes& content) {
    auto& host = host_[static_cast<std::size_t>(s)];
    std::copy(content.begin(), content.end(), host.begin() + kGuard);
    device_.upload(memory_[static_cast<std::size_t>(s)]->at(), host.data(), room_);
    device_.wait();
  }

  // Returns "" or the error.
  std::string run(const Case& one) {
    CudaReduction reduction{dtype_, one.op, {}, {}, one.count, one.sources + 1};
    std::vector<const unsigned char*> sources;
    for (int s = 0; s < one.sources; ++s) {
      const std::size_t at = kGuard + one.offsets[s] * element_;
      reduction.sources.push_back(memory_[static_cast<std::size_t>(s)]->at(at));
      sources.push_back(host_[static_cast<std::size_t>(s)].data() + at);
    }
    const std::size_t at = kGuard + (one.in_place ? one.offsets[0] : one.offsets[kSources]) * element_;
    Memory& into = one.in_place ? *memory_[0] : *result_;
    reduction.destinations = {into.at(at)};
    const float three_halves = 1.5f;
    const void* const factor = accumulates_ ? static_cast<const void*>(&three_halves) : host_[1].data() + kGuard;
    if (one.scales) reduction.factor = factor;
    const Bytes expected = one.scales ? scaled(dtype_, sources[0], one.count, factor)
                                      : reduced(dtype_, one.op, sources, one.count, reduction.ranks);

    const std::size_t begin = at - kGuard, bytes = expected.size() + 2 * kGuard;
    Bytes first(bytes), again(bytes), around(bytes, kPoison);
    if (one.in_place) std::copy_n(host_[0].begin() + static_cast<std::ptrdiff_t>(begin), bytes, around.begin());
    std::copy(expected.begin(), expected.end(), around.begin() + kGuard);
    for (Bytes* const got : {&first, &again}) {
      if (!one.in_place) device_.fill(into.at(begin), kPoison, bytes);
      device_.reduce(reduction);
      device_.download(got->data(), into.at(begin), bytes);
      if (one.in_place) device_.upload(into.at(begin), host_[0].data() + begin, bytes);
      device_.wait();
    }
    if (first != again) return described(dtype_, one) + ": a second call gave other bits";
    if (first == around) return "";
    const auto where = std::mismatch(first.begin(), first.end(), around.begin()).first - first.begin();
    const auto index = static_cast<std::size_t>(where) - kGuard;
    if (static_cast<std::size_t>(where) < kGuard || index >= expected.size()) {
      return described(dtype_, one) + ": wrote outside of the result, at byte " +
             std::to_string(static_cast<long>(where) - static_cast<long>(kGuard));
    }
    return described(dtype_, one) + ": element " + std::to_string(index / element_) + " is " +
           hexadecimal(first, index) + ", not " + hexadecimal(around, index);
  }

  // Checks the memory that no reduction may change.
  bool sources_are_untouched() {
    for (std::size_t s = 0; s < memory_.size(); ++s) {
      Bytes now(room_);
      device_.download(now.data(), memory_[s]->at(), room_);
      if (now != host_[s]) return false;
    }
    return true;
  }

 private:
  std::string hexadecimal(const Bytes& bytes, std::size_t index) const {
    std::string text = "0x";
    const std::size_t start = kGuard + index / element_ * element_;
    for (std::size_t i = element_; i-- > 0;) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", bytes[start + i]);
      text += digits;
    }
    return text;
  }

  Device& device_;
  anello_dtype_t dtype_;
  bool accumulates_ = anello::kernels::reducer(dtype_, ANELLO_SUM).accumulates;  // then the factor is a float32
  std::size_t element_, room_;
  std::vector<Bytes> host_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::unique_ptr<Memory> result_;
};

std::vector<Case> cases_of(anello_dtype_t dtype, const Sizes& sizes) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const anello_op_t op : anello::testing::ops_of(dtype)) {
    for (const int sources : {2, 3, 4, 8}) {
      for (const std::size_t count : {0, 1, 15, 16, 17, 4097}) {
        for (std::size_t offset = 0; offset < kOffsets; offset += sizes.all_offsets ? 1 : 5) {
          Case one{op, sources, count, {}, (turn & 1) != 0};
          const bool alike = (turn++ & 2) == 0;
          for (std::size_t s = 0; s <= kSources; ++s)
            one.offsets[s] = alike ? offset : (offset + 3 * s * s + s) % kOffsets;
          cases.push_back(one);
        }
      }
    }
    cases.push_back({op, 2, sizes.count, {}});
    cases.push_back({op, 3, sizes.count, {1, 1, 1, 1, 1, 1, 1, 1, 1}, true});
    cases.push_back({op, 4, sizes.count, {1, 2, 3, 4, 0, 0, 0, 0, 5}});
    cases.push_back({op, 1, sizes.count, {3, 0, 0, 0, 0, 0, 0, 0, 3}});
    if (op == ANELLO_SUM && anello::kernels::reducer(dtype, op).scale != nullptr)
      cases.push_back({op, 1, sizes.count, {1, 0, 0, 0, 0, 0, 0, 0, 1}, false, true});
  }
  return cases;
}

// For small types, all patterns: each 8-bit pattern with each other one, each 16-bit pattern with a partner.
std::string all_patterns(Device& device, anello_dtype_t dtype, std::size_t& cases) {
  const std::size_t element = anello::dtype_bytes(dtype);
  constexpr std::size_t kPatterns = 65536;
  Bench bench(device, dtype, kPatterns);
  Bytes left(kPatterns * element), right(kPatterns * element);
  for (std::size_t i = 0; i < kPatterns; ++i) {
    const auto l = static_cast<std::uint16_t>(i),
               r = static_cast<std::uint16_t>(element == 1 ? i >> 8 : i * 40503 + 977);
    std::memcpy(left.data() + i * element, &l, element);
    std::memcpy(right.data() + i * element, &r, element);
  }
  bench.set_source(0, left);
  bench.set_source(1, right);
  for (const anello_op_t op : anello::testing::ops_of(dtype)) {
    ++cases;
    if (std::string wrong = bench.run({op, 2, kPatterns, {}}); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace

void correctness(Device& device, const Sizes& sizes) {
  for (const auto& row : anello::testing::all_dtypes()) {
    std::size_t cases = 0;
    std::string wrong;
    Bench bench(device, row.dtype, sizes.count);
    for (const Case& one : cases_of(row.dtype, sizes)) {
      ++cases;
      wrong = bench.run(one);
      if (!wrong.empty()) break;
    }
    if (wrong.empty() && !bench.sources_are_untouched()) wrong = "a source was written to";
    if (wrong.empty() && anello::dtype_bytes(row.dtype) <= 2) wrong = all_patterns(device, row.dtype, cases);
    const bool small = anello::kernels::cuda::has_wide(row.dtype, ANELLO_SUM);
    if (wrong.empty() && small) wrong = wrong_sums(device, row.dtype, sizes, cases);
    const bool moves = anello::class_of(row.dtype) == anello::kBytes;
    if (moves) wrong = cases == 0 ? bench.run({ANELLO_SUM, 1, sizes.count, {3, 0, 0, 0, 0, 0, 0, 0, 3}}) : wrong;
    write({anello::dtype_name(row.dtype), wrong.empty() ? Verdict::pass : Verdict::fail,
           std::to_string(moves ? 1 : cases) + " cases", "every bit as on the host", wrong});
  }
}

}  // namespace gpu
