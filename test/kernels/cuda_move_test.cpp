// Moves in device memory, on the fake device: the bits of the host's loops, and what is refused.
#include "support/fake_cuda.h"

#include "gradient_sync/element_copy.h"
#include "kernels/reduce_cuda.h"

#include "base/dtype.h"
#include "support/catch.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace anello::kernels {
namespace {

using namespace anello::testing;
using Bytes = std::vector<unsigned char>;

class OnDevice {
 public:
  OnDevice(const Bytes& content, std::size_t offset) : offset_(offset), bytes_(content.size()) {
    REQUIRE(fake_driver().allocate(&base_, bytes_ + offset_ + 16) == 0);
    std::memset(reinterpret_cast<void*>(base_), 0xa5, bytes_ + offset_ + 16);
    std::memcpy(data(), content.data(), bytes_);
  }
  ~OnDevice() { fake_driver().release(base_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  unsigned char* data() const { return reinterpret_cast<unsigned char*>(base_) + offset_; }
  Bytes content() const { return Bytes(data(), data() + bytes_); }
  bool is_intact_behind() const { return data()[bytes_] == 0xa5; }

 private:
  std::uint64_t base_ = 0;
  std::size_t offset_, bytes_;
};

struct Context {
  Context() { fake_driver().set_context(&here); }
  ~Context() {
    heal_cuda();
    fake_driver().set_context(nullptr);
  }
  int here = 0;
};

// All kinds of bits: numbers of any size, and, if wanted, infinities and NaN.
Bytes some(anello_dtype_t dtype, std::size_t count, bool finite, std::mt19937_64& random) {
  Bytes bytes(count * dtype_bytes(dtype));
  std::uniform_real_distribution<double> draw(-9, 9);
  const std::size_t element = dtype_bytes(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    unsigned char* const at = bytes.data() + i * element;
    if (dtype == ANELLO_FLOAT64) {
      const double value = !finite && i % 17 == 3 ? -INFINITY : draw(random) * std::pow(2.0, int(i % 40) - 20);
      std::memcpy(at, &value, element);
    } else if (dtype == ANELLO_FLOAT32) {
      const float value = !finite && i % 17 == 3 ? NAN : float(draw(random) * std::pow(2.0, int(i % 40) - 24));
      std::memcpy(at, &value, element);
    } else {
      auto bits = static_cast<std::uint16_t>(random());
      const unsigned exponent = dtype == ANELLO_FLOAT16 ? 0x7c00u : 0x7f80u;
      if (finite && (bits & exponent) == exponent) bits = 0x3c00;
      // NaNs are quiet: a compiler may leave out a multiplication by one, which would make a signalling one quiet.
      if ((bits & exponent) == exponent && (bits & ~exponent & 0x7fffu) != 0) bits |= (exponent & -exponent) >> 1;
      std::memcpy(at, &bits, element);
    }
  }
  return bytes;
}

std::uint32_t* pinned_word() {
  void* word = nullptr;
  REQUIRE(fake_driver().allocate_pinned(&word, 4, 0) == 0);
  return static_cast<std::uint32_t*>(word);
}

TEST_CASE("a move has the host's bits and finds what the host finds, wherever its operands lie") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(44);
  std::uint32_t* const word = pinned_word();
  for (const auto& [from_type, to_type] : cuda::kMoves) {
    for (const std::size_t count : {1, 7, 8, 1000, 4099}) {
      for (const std::size_t offset : {0, 1, 4}) {
        for (const double factor : {1.0, 0.3, 0.0}) {
          for (const bool finite : {true, false}) {
            INFO(dtype_name(from_type) << " to " << dtype_name(to_type) << ", " << count << " at " << offset
                                       << " times " << factor << (finite ? "" : ", not finite"));
            const Bytes in = some(from_type, count, finite, random);
            Bytes wanted(count * dtype_bytes(to_type));
            const bool fine =
                gradient_sync::copy_elements(in.data(), from_type, wanted.data(), to_type, count, factor, true);
            const OnDevice from(in, offset * dtype_bytes(from_type));
            const OnDevice to(Bytes(wanted.size()), offset * dtype_bytes(to_type));
            *word = 0;
            const Error error =
                reducer.move({from_type, to_type, from.data(), to.data(), count, factor, nullptr, word, nullptr});
            REQUIRE(error.text() == "");
            REQUIRE(fake_driver().wait_for_stream(nullptr) == 0);
            REQUIRE((to.content() == wanted));
            REQUIRE(to.is_intact_behind());
            REQUIRE((*word == 0) == fine);
          }
        }
      }
    }
  }
  fake_driver().release_pinned(word);
}

TEST_CASE("a move with rounding errors has the host's bits and leaves the host's errors") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(45);
  for (const anello_dtype_t to_type : {ANELLO_FLOAT16, ANELLO_BFLOAT16}) {
    for (const std::size_t offset : {0, 3}) {
      constexpr std::size_t kCount = 1003;
      const Bytes in = some(ANELLO_FLOAT32, kCount, false, random);
      Bytes residual = some(ANELLO_FLOAT32, kCount, true, random), wanted(2 * kCount);
      const OnDevice from(in, 4 * offset), to(wanted, 2 * offset), rest(residual, 4 * offset);
      std::vector<float> errors(kCount);
      std::memcpy(errors.data(), residual.data(), residual.size());
      gradient_sync::round_with_feedback(reinterpret_cast<const float*>(in.data()), errors.data(), wanted.data(),
                                         to_type, kCount, 0.7);
      const Error error = reducer.move({ANELLO_FLOAT32, to_type, from.data(), to.data(), kCount, 0.7,
                                        reinterpret_cast<float*>(rest.data()), nullptr, nullptr});
      REQUIRE(error.text() == "");
      REQUIRE(fake_driver().wait_for_stream(nullptr) == 0);
      REQUIRE((to.content() == wanted));
      REQUIRE(std::memcmp(rest.data(), errors.data(), residual.size()) == 0);
      REQUIRE((rest.is_intact_behind() && to.is_intact_behind()));
    }
  }
}

TEST_CASE("a move that no kernel can do is refused") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  const OnDevice memory(Bytes(64), 0);
  unsigned char* const at = memory.data();
  float* const rest = reinterpret_cast<float*>(at);
  using Catch::Matchers::Contains;
  CHECK_THAT(reducer.move({ANELLO_INT32, ANELLO_INT32, at, at, 4}).text(),
             Contains("int32 to int32: there is no kernel"));
  CHECK_THAT(reducer.move({ANELLO_FLOAT32, ANELLO_FLOAT32, at, nullptr, 4}).text(), Contains("a pointer is null"));
  CHECK_THAT(reducer.move({ANELLO_FLOAT32, ANELLO_FLOAT32, at + 2, at, 4}).text(), Contains("not aligned"));
  CHECK_THAT(reducer.move({ANELLO_FLOAT64, ANELLO_FLOAT64, at, at, 4, 1, rest}).text(), Contains("rounding errors"));
  CHECK(reducer.move({ANELLO_FLOAT32, ANELLO_FLOAT32, nullptr, nullptr, 0}).text() == "");
  CHECK(reducer.prepare_moves().text() == "");
}

}  // namespace
}  // namespace anello::kernels
