// Reductions over device memory, on the fake device: which kernel with which arguments, and the bits that come out.
#include "support/operands.h"
#include "support/fake_cuda.h"

#include "kernels/cuda/launch.h"
#include "kernels/cuda/runs_as.h"
#include "kernels/reduce_cuda.h"

#include "../../tools/gpu/oracle.h"
#include "support/catch.h"

#include <algorithm>
#include <cstring>

namespace anello::kernels {
namespace {

using namespace anello::testing;
using gpu::Bytes;

constexpr std::size_t kGuard = 64;

// Device memory at an offset from a 256-byte boundary, with guard bytes on both sides.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t offset)
      : bytes_(bytes), start_(kGuard + offset), all_(bytes + offset + 2 * kGuard) {
    REQUIRE(fake_driver().allocate(&base_, all_) == 0);
    std::fill_n(base(), all_, static_cast<unsigned char>(0xa5));
  }
  ~Buffer() { fake_driver().release(base_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* data() { return base() + start_; }
  void fill(const Bytes& content) { std::copy_n(content.begin(), bytes_, data()); }
  Bytes content() { return Bytes(data(), data() + bytes_); }
  bool guarded() {
    const auto untouched = [](unsigned char byte) { return byte == 0xa5; };
    return std::all_of(base(), data(), untouched) && std::all_of(data() + bytes_, base() + all_, untouched);
  }

 private:
  unsigned char* base() { return reinterpret_cast<unsigned char*>(base_); }
  std::uint64_t base_ = 0;
  std::size_t bytes_, start_, all_;
};

class Context {
 public:
  Context() { fake_driver().set_context(&here_); }
  ~Context() {
    heal_cuda();
    taken_launches();
    fake_driver().set_context(nullptr);
  }

 private:
  int here_ = 0;
};

void require_done(CudaReducer& reducer, const CudaReduction& reduction) {
  const Error error = reducer.reduce(reduction);
  INFO(error.text());
  REQUIRE(!error);
  REQUIRE(fake_driver().wait_for_stream(reduction.stream) == 0);
}

// Sources and destinations at offsets given in elements, each against the reduction on the host.
void check_reduction(CudaReducer& reducer, anello_dtype_t dtype, anello_op_t op, std::size_t count,
                     const std::vector<std::size_t>& source_offsets,
                     const std::vector<std::size_t>& destination_offsets, bool in_place, std::mt19937_64& random) {
  const std::size_t element = dtype_bytes(dtype), bytes = count * element;
  CudaReduction reduction{dtype, op, {}, {}, count, static_cast<int>(source_offsets.size()) + 1};
  std::vector<std::unique_ptr<Buffer>> sources, destinations;
  std::vector<Bytes> inputs;
  std::vector<const unsigned char*> host;
  for (const std::size_t offset : source_offsets) {
    inputs.push_back(operands(dtype, count, random));
    sources.push_back(std::make_unique<Buffer>(bytes, offset * element));
    sources.back()->fill(inputs.back());
    reduction.sources.push_back(sources.back()->data());
  }
  for (const Bytes& input : inputs) host.push_back(input.data());
  for (const std::size_t offset : destination_offsets) {
    destinations.push_back(std::make_unique<Buffer>(bytes, offset * element));
    reduction.destinations.push_back(destinations.back()->data());
  }
  if (in_place) reduction.destinations[0] = sources.back()->data();
  const Bytes expected = gpu::reduced(dtype, op, host, count, reduction.ranks);
  require_done(reducer, reduction);
  for (std::size_t d = 0; d < destinations.size(); ++d) {
    Buffer& into = d == 0 && in_place ? *sources.back() : *destinations[d];
    REQUIRE((into.content() == expected));
    REQUIRE(destinations[d]->guarded());
  }
  for (std::size_t s = 0; s < sources.size(); ++s) {
    REQUIRE(sources[s]->guarded());
    if (!in_place || s + 1 != sources.size()) REQUIRE((sources[s]->content() == inputs[s]));
  }
}

template <class Check>
void for_each_pair(Check check) {
  for (const auto& row : all_dtypes()) {
    for (const anello_op_t op : ops_of(row.dtype)) {
      INFO(dtype_name(row.dtype) << " " << op_name(op));
      check(row.dtype, op);
    }
  }
}

TEST_CASE("every type and operation gives the host's bits on a device, whatever the count and the number of sources") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(20260102);
  for_each_pair([&](anello_dtype_t dtype, anello_op_t op) {
    for (const std::size_t sources : {1, 2, 3, 8}) {
      INFO(sources << " sources");
      for (const std::size_t count : {1, 15, 16, 17, 4097}) {
        INFO("count " << count);
        check_reduction(reducer, dtype, op, count, std::vector<std::size_t>(sources, 0), {0}, false, random);
      }
    }
    check_reduction(reducer, dtype, op, 20011, {0, 0}, {0}, false, random);
    check_reduction(reducer, dtype, op, 777, {0, 0, 0}, {0, 0}, true, random);
  });
}

TEST_CASE("every type and operation gives the host's bits at any offset, equal or not, in place or not") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(20260103);
  for_each_pair([&](anello_dtype_t dtype, anello_op_t op) {
    for (std::size_t offset = 0; offset < 16; ++offset) {
      INFO("offset " << offset);
      check_reduction(reducer, dtype, op, 300 + random() % 300, {offset, offset}, {offset}, offset % 2 == 1, random);
      check_reduction(reducer, dtype, op, 300 + random() % 300, {offset, random() % 16}, {random() % 16},
                      offset % 2 == 1, random);
    }
    for (std::size_t count = 0; count < 16; ++count) {  // ends before the first aligned address, or just behind it
      check_reduction(reducer, dtype, op, count, {3, 3}, {3}, false, random);
    }
  });
}

const Reducer& reducer_of_sum(anello_dtype_t dtype) { return reducer(dtype, ANELLO_SUM); }

Bytes factor_for(anello_dtype_t dtype, std::mt19937_64& random) {
  return operands(reducer_of_sum(dtype).accumulates ? ANELLO_FLOAT32 : dtype, 1, random);
}

TEST_CASE("a premultiplied source is what the host's scale makes of it, rounded once") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(20260104);
  for (const auto& row : all_dtypes()) {
    if (reducer_of_sum(row.dtype).scale == nullptr) continue;
    INFO(dtype_name(row.dtype));
    const std::size_t element = dtype_bytes(row.dtype);
    for (const std::size_t offset : {0, 1, 7}) {
      const std::size_t count = 2049;
      const Bytes input = operands(row.dtype, count, random), factor = factor_for(row.dtype, random);
      Buffer from(count * element, offset * element), into(count * element, 0);
      from.fill(input);
      CudaReduction reduction{row.dtype, ANELLO_SUM, {from.data()}, {into.data()}, count};
      reduction.factor = factor.data();
      require_done(reducer, reduction);
      REQUIRE((into.content() == gpu::scaled(row.dtype, input.data(), count, factor.data())));
      REQUIRE(into.guarded());
    }
  }
}

// A reduction that takes or leaves sums, against the host's widen, scale, accumulate and finish.
void check_sums(CudaReducer& reducer, anello_dtype_t dtype, anello_op_t op, std::size_t count, int sources,
                bool sums_in, bool sums_out, bool by_factor, std::size_t offset, std::mt19937_64& random) {
  const Reducer& host = kernels::reducer(dtype, op);
  const std::size_t element = dtype_bytes(dtype), wide = host.accumulator_bytes;
  const Bytes factor = factor_for(dtype, random);
  CudaReduction reduction{dtype, op, {}, {}, count, 3};
  reduction.sums_in = sums_in;
  reduction.sums_out = sums_out;
  Bytes expected(count * wide);
  std::vector<std::unique_ptr<Buffer>> memory;
  for (int s = 0; s < sources; ++s) {
    const bool sums = s == 0 && sums_in;
    const std::size_t bytes = sums ? wide : element;
    const Bytes input = operands(sums ? ANELLO_FLOAT32 : dtype, count, random);
    memory.push_back(std::make_unique<Buffer>(count * bytes, (s == 0 ? offset : random() % 16) * bytes));
    memory.back()->fill(input);
    reduction.sources.push_back(memory.back()->data());
    if (sums) {
      expected = input;
    } else if (s == 0 && by_factor) {
      reduction.factor = factor.data();
      host.scale(expected.data(), input.data(), factor.data(), count);
    } else {
      (s == 0 ? host.widen : host.accumulate)(expected.data(), input.data(), count);
    }
  }
  const std::size_t bytes = sums_out ? wide : element;
  if (!sums_out) {
    Bytes rounded(count * element);
    host.finish(rounded.data(), expected.data(), count, reduction.ranks);
    expected = rounded;
  }
  Buffer into(count * bytes, (offset % 3 == 0 ? offset : random() % 16) * bytes);
  reduction.destinations = {into.data()};
  require_done(reducer, reduction);
  REQUIRE((into.content() == expected));
  REQUIRE(into.guarded());
}

TEST_CASE("sums of small floats come in and go out in float32, with the host's bits") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(20260106);
  for (const anello_dtype_t dtype : {ANELLO_FLOAT16, ANELLO_BFLOAT16, ANELLO_FLOAT8_E4M3, ANELLO_FLOAT8_E5M2}) {
    for (const anello_op_t op : {ANELLO_SUM, ANELLO_PROD, ANELLO_AVG}) {
      for (std::size_t offset = 0; offset < 16; ++offset) {
        for (const int sources : {1, 2, 3, 8}) {
          for (const int flags : {1, 2, 3}) {
            INFO(dtype_name(dtype) << " " << op_name(op) << ", " << sources << " sources, sums " << flags << ", offset "
                                   << offset);
            check_sums(reducer, dtype, op, offset == 0 ? 3001 : 200 + random() % 300, sources, flags & 1, flags & 2,
                       false, offset, random);
          }
        }
        if (op == ANELLO_SUM) check_sums(reducer, dtype, op, 777, 1, false, true, true, offset, random);
      }
    }
  }
  std::vector<std::string> names;
  for (const FakeLaunch& launch : taken_launches()) names.push_back(launch.kernel);
  for (const char* const name :
       {"anello_float16_sum_wide_16", "anello_bfloat16_avg_wide_4", "anello_float8_e5m2_prod_wide_1"}) {
    CHECK(std::count(names.begin(), names.end(), name) != 0);
  }
}

TEST_CASE("where the accumulator is the type, sums are elements, and what goes out as a sum is not divided") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  Buffer a(8, 0), b(8, 0);
  const float values[] = {3, 5};
  std::memcpy(a.data(), values, sizeof values);
  std::memcpy(b.data(), values, sizeof values);
  CudaReduction reduction{ANELLO_FLOAT32, ANELLO_AVG, {a.data(), b.data()}, {a.data()}, 2, 4};
  reduction.sums_in = reduction.sums_out = true;
  require_done(reducer, reduction);
  float sums[2];
  std::memcpy(sums, a.data(), sizeof sums);
  CHECK(sums[0] == 6);
  reduction.sources = {a.data()};
  reduction.sums_out = false;
  require_done(reducer, reduction);
  std::memcpy(sums, a.data(), sizeof sums);
  CHECK(sums[1] == 2.5f);
}

TEST_CASE("bytes are copied to many destinations at once, and so is every type without an operation's arithmetic") {
  const Context context;
  CudaReducer reducer(fake_driver(), fake_images());
  std::mt19937_64 random(20260105);
  const Bytes input = operands(ANELLO_BYTE, 5000, random);
  Buffer from(5000, 3);
  from.fill(input);
  CudaReduction reduction{ANELLO_BYTE, ANELLO_SUM, {from.data()}, {}, 5000};
  std::vector<std::unique_ptr<Buffer>> into;
  for (std::size_t d = 0; d < 8; ++d) {
    into.push_back(std::make_unique<Buffer>(5000, 3 + 16 * d));
    reduction.destinations.push_back(into.back()->data());
  }
  require_done(reducer, reduction);
  for (const auto& one : into) CHECK((one->content() == input && one->guarded()));
  const auto launches = taken_launches();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].kernel == "anello_copy_16");
  CHECK(launches[0].arguments.head == 16 - (3 + kGuard) % 16);
}

// The plan for pointers that are numbers only.
cuda::Launch planned(anello_dtype_t dtype, anello_op_t op, const std::vector<std::uintptr_t>& sources,
                     std::uintptr_t destination, std::size_t count = 100000, int ctas = 0) {
  CudaReduction reduction{dtype, op, {}, {reinterpret_cast<void*>(destination)}, count, 2};
  for (const std::uintptr_t source : sources) reduction.sources.push_back(reinterpret_cast<void*>(source));
  reduction.ctas = ctas;
  cuda::Launch launch;
  const Error error = cuda::plan(reduction, 132, launch);
  INFO(error.text());
  REQUIRE(!error);
  return launch;
}

TEST_CASE("the widest granule is taken that all pointers reach after the same elements") {
  const auto check = [](anello_dtype_t dtype, std::vector<std::uintptr_t> sources, std::uintptr_t destination,
                        int granule, unsigned head) {
    const cuda::Launch launch =
        planned(dtype, dtype == ANELLO_FLOAT64_INT ? ANELLO_MINLOC : ANELLO_PROD, sources, destination);
    CAPTURE(dtype_name(dtype), sources, destination);
    CHECK(launch.granule == granule);
    CHECK(launch.arguments.head == head);
  };
  check(ANELLO_FLOAT32, {0x1000, 0x2000}, 0x3000, 16, 0);
  check(ANELLO_FLOAT32, {0x1004, 0x2004}, 0x3004, 16, 3);
  check(ANELLO_FLOAT32, {0x1004, 0x2008}, 0x3004, 4, 0);
  check(ANELLO_FLOAT64, {0x1008, 0x2008}, 0x3008, 16, 1);
  check(ANELLO_FLOAT64, {0x1008, 0x2000}, 0x3008, 8, 0);
  check(ANELLO_FLOAT16, {0x1002, 0x2002}, 0x3002, 16, 7);
  check(ANELLO_FLOAT16, {0x1002, 0x2006}, 0x3002, 4, 1);
  check(ANELLO_FLOAT16, {0x1002, 0x2004}, 0x3002, 2, 0);
  check(ANELLO_UINT8, {0x1003, 0x2003}, 0x3003, 16, 13);
  check(ANELLO_UINT8, {0x1003, 0x2007}, 0x3003, 4, 1);
  check(ANELLO_UINT8, {0x1003, 0x2004}, 0x3003, 1, 0);
  // Half an element does not lead to an aligned one.
  check(ANELLO_COMPLEX128, {0x1008, 0x2008}, 0x3008, 8, 0);
  check(ANELLO_FLOAT64_INT, {0x1008, 0x2008}, 0x3008, 8, 0);
  check(ANELLO_COMPLEX64, {0x1004, 0x2004}, 0x3004, 4, 0);
  check(ANELLO_COMPLEX64, {0x1008, 0x2000}, 0x3008, 8, 0);
  check(ANELLO_FLOAT32, {0x1004, 0x200c}, 0x3004, 8, 1);
  check(ANELLO_UINT8, {0x1003, 0x200b}, 0x3003, 8, 5);
  check(ANELLO_COMPLEX64, {0x1008, 0x2008}, 0x3008, 16, 1);
}

TEST_CASE("pairs that mean the same arithmetic share a kernel") {
  const auto name = [](anello_dtype_t dtype, anello_op_t op) {
    const cuda::Launch launch = planned(dtype, op, {0x1000, 0x2000}, 0x3000);
    return cuda::kernel_name(launch.dtype, launch.op, launch.form, launch.granule);
  };
  CHECK(name(ANELLO_INT32, ANELLO_SUM) == "anello_uint32_sum_16");
  CHECK(name(ANELLO_INT32, ANELLO_MIN) == "anello_int32_min_16");
  CHECK(name(ANELLO_INT16, ANELLO_AVG) == "anello_int16_avg_16");
  CHECK(name(ANELLO_BOOL, ANELLO_MAX) == "anello_uint8_lor_16");
  CHECK(name(ANELLO_COMPLEX64, ANELLO_AVG) == "anello_float32_avg_16");
  CHECK(name(ANELLO_COMPLEX64, ANELLO_PROD) == "anello_complex64_prod_16");
  CHECK(name(ANELLO_INT64, ANELLO_BXOR) == "anello_uint8_bxor_16");
  CHECK(planned(ANELLO_INT64, ANELLO_BXOR, {0x1000, 0x2000}, 0x3000, 7).arguments.count == 56);
}

TEST_CASE("the grid fits the work, the device and the caller's bound") {
  constexpr std::size_t kLarge = std::size_t{1} << 28;
  const auto grid =
      [](anello_dtype_t dtype, anello_op_t op, std::size_t count, int ctas = 0, std::uintptr_t second = 0x2000) {
    return planned(dtype, op, {0x1000, second}, 0x3000, count, ctas);
  };
  // 64 bytes of a source a thread, 8 KiB a block; 32 where sums are wider; bytes one by one, 16.
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, kLarge).blocks == kLarge * 4 / 8192);
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, kLarge).threads == 128);
  CHECK(grid(ANELLO_BFLOAT16, ANELLO_SUM, kLarge).blocks == kLarge * 2 / 4096);
  CHECK(grid(ANELLO_UINT8, ANELLO_SUM, kLarge, 0, 0x2001).blocks == kLarge / 2048);
  CHECK(grid(ANELLO_COMPLEX128, ANELLO_PROD, kLarge, 0, 0x2008).blocks == kLarge * 16 / 16384);
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, kLarge, 16).blocks == 16);
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, kLarge, 16).threads == 512);
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, 16, 16).blocks == 1);
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, std::size_t{1} << 60).blocks == (1u << 31) - 1);
  const cuda::Launch small = grid(ANELLO_FLOAT32, ANELLO_SUM, 1 << 16);
  CHECK(small.threads == 64);  // 256 KiB: 64 small blocks rather than 32 of the others
  CHECK(small.blocks == 64);
  CHECK(grid(ANELLO_FLOAT32, ANELLO_SUM, 1 << 18).threads == 128);
}

TEST_CASE("every kernel that the host may ask for exists, and no other") {
  std::vector<std::string> wanted, there;
  for_each_pair([&](anello_dtype_t dtype, anello_op_t op) {
    const cuda::RunsAs as = cuda::runs_as(dtype, op);
    CHECK(cuda::is_kernel(as.dtype, as.op));
    for (const int granule : cuda::kGranules) {
      if (!cuda::has_granule(cuda::alignment(as.dtype), granule)) continue;
      wanted.push_back(cuda::kernel_name(as.dtype, as.op, cuda::Form::elements, granule));
      if (!cuda::has_wide(as.dtype, as.op)) continue;
      wanted.push_back(cuda::kernel_name(as.dtype, as.op, cuda::Form::wide, granule));
    }
  });
  for (const int granule : {16, 8, 4, 1}) {
    wanted.push_back(cuda::kernel_name(ANELLO_BYTE, ANELLO_SUM, cuda::Form::copy, granule));
  }
  for (const auto& [from, to] : cuda::kMoves)
    wanted.push_back(std::string("anello_move_") + dtype_name(from) + "_" + dtype_name(to));
  for (int image = 0; image < cuda::kImages; ++image) {
    for (const FakeKernel& kernel : fake_kernels(image)) there.push_back(kernel.name);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::sort(there.begin(), there.end());
  CHECK(wanted == there);
}

}  // namespace
}  // namespace anello::kernels
