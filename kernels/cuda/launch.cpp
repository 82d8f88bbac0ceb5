#include "kernels/cuda/launch.h"

#include "base/text.h"
#include "kernels/cuda/loads.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace anello::kernels::cuda {
namespace {

Error refused(anello_result_t code, const CudaReduction& reduction, const std::string& why) {
  return {code, text("CUDA ", op_name(reduction.op), " of ", dtype_name(reduction.dtype), ": ", why)};
}

// Whether operands of two widths meet.
bool is_wide(const CudaReduction& reduction) {
  return (reduction.sums_in || reduction.sums_out) && has_wide(reduction.dtype, reduction.op);
}

Error check_pointers(const CudaReduction& reduction) {
  const auto check = [&](const char* what, std::size_t index, const void* pointer, bool sums) -> Error {
    const std::size_t alignment_bytes = sums && is_wide(reduction) ? alignof(float) : alignment(reduction.dtype);
    if (pointer == nullptr)
      return refused(ANELLO_ERR_ARGUMENT, reduction, text(what, " ", index, " is a null pointer"));
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment_bytes == 0) return {};
    return refused(ANELLO_ERR_ARGUMENT, reduction,
                   text(what, " ", index, " is at ", pointer, ", not a multiple of ", alignment_bytes,
                        " bytes, which a device needs"));
  };
  for (std::size_t s = 0; s < reduction.sources.size(); ++s) {
    if (Error error = check("source", s, reduction.sources[s], s == 0 && reduction.sums_in)) return error;
  }
  for (std::size_t d = 0; d < reduction.destinations.size(); ++d) {
    if (Error error = check("destination", d, reduction.destinations[d], reduction.sums_out)) return error;
  }
  return {};
}

Error check(const CudaReduction& reduction) {
  const auto operands = [](std::size_t size) { return size >= 1 && size <= kMaxOperands; };
  if (element_bytes(reduction.dtype) == 0) {
    return refused(ANELLO_ERR_TYPE, reduction, text("no data type of Anello has the number ", int{reduction.dtype}));
  }
  if (!operands(reduction.sources.size()) || !operands(reduction.destinations.size())) {
    return refused(ANELLO_ERR_ARGUMENT, reduction,
                   text(reduction.sources.size(), " sources and ", reduction.destinations.size(),
                        " destinations; 1 to ", kMaxOperands, " of each can be"));
  }
  if (!is_op(reduction.op)) {
    return refused(ANELLO_ERR_TYPE, reduction, text("no operation of Anello has the number ", int{reduction.op}));
  }
  const bool moves = reduction.sources.size() == 1 && class_of(reduction.dtype) == kBytes;
  if (!moves && !makes_sense(reduction.dtype, reduction.op)) {
    return refused(ANELLO_ERR_TYPE, reduction, text(op_name(reduction.op), " takes ", what_op_takes(reduction.op)));
  }
  if (reduction.op == ANELLO_AVG && reduction.ranks < 1) {
    return refused(ANELLO_ERR_ARGUMENT, reduction, text("an average over ", reduction.ranks, " ranks"));
  }
  const bool scales = reduction.op == ANELLO_SUM && reduction.sources.size() == 1 && class_of(reduction.dtype) != kBool;
  if (reduction.factor != nullptr && !scales) {
    return refused(ANELLO_ERR_ARGUMENT, reduction,
                   "a factor goes with a sum of one source, of integers, floats and complex numbers");
  }
  if (reduction.factor != nullptr && reduction.sums_in) {
    return refused(ANELLO_ERR_ARGUMENT, reduction, "a factor goes with elements, not with sums");
  }
  return check_pointers(reduction);
}

// The widest granule that all pointers reach after the same number of whole elements, and that number.
void choose_granule(std::size_t element, std::size_t alignment_bytes, Launch& launch) {
  Arguments& arguments = launch.arguments;
  const std::size_t width = accumulator_bytes(launch.dtype) / element;
  struct Operand {
    std::uintptr_t address;
    std::size_t times;  // as wide as elements
  };
  std::array<Operand, 2 * kMaxOperands> operands;
  auto end = operands.begin();
  const auto add = [&](const void* pointer, bool sums) {
    *end++ = {reinterpret_cast<std::uintptr_t>(pointer), sums ? width : 1};
  };
  for (int s = 0; s < arguments.source_count; ++s) add(arguments.sources[s], s == 0 && arguments.sums_in != 0);
  for (int d = 0; d < arguments.destination_count; ++d) add(arguments.destinations[d], arguments.sums_out != 0);
  const auto narrow = std::find_if(operands.begin(), end, [](const Operand& one) { return one.times == 1; });

  for (const int granule : kGranules) {
    if (!has_granule(alignment_bytes, granule)) continue;
    const auto bytes = static_cast<std::size_t>(granule), unit = std::max(bytes, element);
    const std::size_t before = (bytes - narrow->address % bytes) % bytes;
    const bool fits = before % element == 0 && std::all_of(operands.begin(), end, [&](const Operand& one) {
                        const std::size_t load = one.times == 1 ? bytes : std::min<std::size_t>(16, unit * width);
                        return (one.address + before * one.times) % load == 0;
                      });
    if (!fits) continue;
    launch.granule = granule;
    arguments.head = static_cast<std::uint32_t>(std::min<std::uint64_t>(before / element, arguments.count));
    return;
  }
}

// The most that a grid can have.
constexpr std::uint64_t kMostBlocks = (std::uint64_t{1} << 31) - 1;

// Without a bound, every block does its threads' loads once and ends. The memory that is read and written at one time
// then lies close together, and its rate is 5 % higher than with persistent blocks, which drift apart
// (docs/gpu-results.md). A reduction that is too small to fill the device uses smaller blocks.
void choose_grid(const CudaReduction& reduction, std::size_t element, int multiprocessors, Launch& launch) {
  const int each = loads(full_loads(launch.dtype, launch.op, launch.form), launch.granule);
  const std::uint64_t bytes = launch.arguments.count * element;
  const std::uint64_t per_thread =
      static_cast<std::uint64_t>(each) * std::max(element, static_cast<std::size_t>(launch.granule));
  const std::uint64_t threads = (bytes + per_thread - 1) / per_thread;
  const auto blocks_of = [&](unsigned size) { return (threads + size - 1) / size; };
  std::uint64_t most = kMostBlocks;
  if (reduction.ctas > 0) {
    launch.threads = kMaxThreads;
    most = static_cast<std::uint64_t>(reduction.ctas);
  } else {
    launch.threads = 4 * kWarp;
    const auto enough = static_cast<std::uint64_t>(multiprocessors);
    while (launch.threads > 2 * kWarp && 2 * blocks_of(launch.threads) <= enough) launch.threads /= 2;
  }
  launch.blocks = static_cast<unsigned>(std::max<std::uint64_t>(1, std::min(blocks_of(launch.threads), most)));
}

}  // namespace

std::string kernel_name(anello_dtype_t dtype, anello_op_t op, Form form, int granule) {
  if (form == Form::copy) return text("anello_copy_", granule);
  return text("anello_", dtype_name(dtype), "_", op_name(op), form == Form::wide ? "_wide_" : "_", granule);
}

Error plan(const CudaReduction& reduction, int multiprocessors, Launch& launch) {
  launch = Launch{};
  if (reduction.count == 0 && element_bytes(reduction.dtype) != 0) return {};
  if (Error error = check(reduction)) return error;

  const bool alone = reduction.sources.size() == 1, wide = is_wide(reduction);
  if (wide && alone && reduction.sums_in && reduction.sums_out) {
    CudaReduction sums = reduction;
    sums.dtype = ANELLO_FLOAT32;
    sums.op = ANELLO_SUM;
    sums.sums_in = sums.sums_out = false;
    return plan(sums, multiprocessors, launch);
  }
  anello_op_t op = reduction.op == ANELLO_AVG && reduction.sums_out ? ANELLO_SUM : reduction.op;
  if (reduction.factor != nullptr) {
    op = ANELLO_PROD;
  } else if (wide && alone && op == ANELLO_PROD) {
    op = ANELLO_SUM;  // only converts: with one source, a product would use a factor
  }
  const bool copies = alone && op != ANELLO_AVG && reduction.factor == nullptr && !wide;
  launch.form = copies ? Form::copy : wide ? Form::wide : Form::elements;
  const RunsAs as = copies ? RunsAs{ANELLO_BYTE, op, element_bytes(reduction.dtype)} : runs_as(reduction.dtype, op);
  launch.dtype = as.dtype;
  launch.op = as.op;

  Arguments& arguments = launch.arguments;
  arguments.count = reduction.count * as.parts;
  arguments.source_count = static_cast<std::int32_t>(reduction.sources.size());
  arguments.destination_count = static_cast<std::int32_t>(reduction.destinations.size());
  arguments.ranks = reduction.ranks;
  arguments.sums_in = wide && reduction.sums_in;
  arguments.sums_out = wide && reduction.sums_out;
  for (std::size_t s = 0; s < reduction.sources.size(); ++s) {
    arguments.sources[s] = static_cast<const unsigned char*>(reduction.sources[s]);
  }
  for (std::size_t d = 0; d < reduction.destinations.size(); ++d) {
    arguments.destinations[d] = static_cast<unsigned char*>(reduction.destinations[d]);
  }
  const std::size_t element = element_bytes(as.dtype);
  if (reduction.factor != nullptr) std::memcpy(arguments.factor, reduction.factor, accumulator_bytes(as.dtype));
  choose_granule(element, alignment(as.dtype), launch);
  choose_grid(reduction, element, multiprocessors, launch);
  return {};
}

}  // namespace anello::kernels::cuda
