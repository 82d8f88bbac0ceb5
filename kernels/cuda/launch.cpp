#include "kernels/cuda/launch.h"

#include "base/text.h"
#include "kernels/cuda/runs_as.h"

#include <algorithm>
#include <cstring>

namespace anello::kernels::cuda {
namespace {

Error refused(anello_result_t code, const CudaReduction& reduction, const std::string& why) {
  return {code, text("CUDA ", op_name(reduction.op), " of ", dtype_name(reduction.dtype), ": ", why)};
}

Error check_pointers(const CudaReduction& reduction, std::size_t alignment_bytes) {
  const auto check = [&](const char* what, std::size_t index, const void* pointer) -> Error {
    if (pointer == nullptr) return refused(ANELLO_ERR_ARGUMENT, reduction, text(what, " ", index, " is a null pointer"));
    if (reinterpret_cast<std::uintptr_t>(pointer) % alignment_bytes == 0) return {};
    return refused(ANELLO_ERR_ARGUMENT, reduction, text(what, " ", index, " is at ", pointer, ", not a multiple of ", alignment_bytes,
                                                        " bytes, which a device needs"));
  };
  for (std::size_t s = 0; s < reduction.sources.size(); ++s) {
    if (Error error = check("source", s, reduction.sources[s])) return error;
  }
  for (std::size_t d = 0; d < reduction.destinations.size(); ++d) {
    if (Error error = check("destination", d, reduction.destinations[d])) return error;
  }
  return {};
}

Error check(const CudaReduction& reduction) {
  const auto operands = [](std::size_t size) { return size >= 1 && size <= kMaxOperands; };
  if (!is_dtype(reduction.dtype)) return refused(ANELLO_ERR_TYPE, reduction, text("no data type has the number ", int{reduction.dtype}));
  if (!operands(reduction.sources.size()) || !operands(reduction.destinations.size())) {
    return refused(ANELLO_ERR_ARGUMENT, reduction, text(reduction.sources.size(), " sources and ", reduction.destinations.size(),
                                                        " destinations; 1 to ", kMaxOperands, " of each can be"));
  }
  if (!is_op(reduction.op)) return refused(ANELLO_ERR_TYPE, reduction, text("no operation has the number ", int{reduction.op}));
  const bool moves = reduction.sources.size() == 1 && class_of(reduction.dtype) == kBytes;
  if (!moves && !makes_sense(reduction.dtype, reduction.op)) {
    return refused(ANELLO_ERR_TYPE, reduction, text(op_name(reduction.op), " takes ", what_op_takes(reduction.op)));
  }
  if (reduction.op == ANELLO_AVG && reduction.ranks < 1) {
    return refused(ANELLO_ERR_ARGUMENT, reduction, text("an average over ", reduction.ranks, " ranks"));
  }
  if (reduction.scalar != nullptr && (reduction.op != ANELLO_PROD || reduction.sources.size() != 1)) {
    return refused(ANELLO_ERR_ARGUMENT, reduction, "a scalar goes with PROD of one source");
  }
  return check_pointers(reduction, alignment(reduction.dtype));
}

// The widest granule that all pointers reach after the same number of whole elements, and that number.
void choose_granule(const CudaReduction& reduction, std::size_t element, std::size_t alignment_bytes, Launch& launch) {
  std::uintptr_t differ = 0;
  const auto first = reinterpret_cast<std::uintptr_t>(reduction.sources[0]);
  for (const void* source : reduction.sources) differ |= reinterpret_cast<std::uintptr_t>(source) ^ first;
  for (const void* destination : reduction.destinations) differ |= reinterpret_cast<std::uintptr_t>(destination) ^ first;
  for (const int granule : kGranules) {
    if (!has_granule(alignment_bytes, granule)) continue;
    const std::size_t bytes = static_cast<std::size_t>(granule);
    const std::size_t before = (bytes - first % bytes) % bytes;
    if (differ % bytes != 0 || before % element != 0) continue;
    launch.granule = granule;
    launch.arguments.head = static_cast<std::uint32_t>(std::min<std::uint64_t>(before / element, launch.arguments.count));
    return;
  }
}

// A thread has 64 bytes of each source under way. A reduction too small to fill the device is spread in smaller blocks.
void choose_grid(const CudaReduction& reduction, std::uint64_t bytes, int multiprocessors, Launch& launch) {
  const std::uint64_t threads = (bytes + 63) / 64;
  const auto blocks_of = [&](unsigned size) { return (threads + size - 1) / size; };
  launch.threads = kMaxThreads;
  if (reduction.ctas <= 0) {
    const auto enough = static_cast<std::uint64_t>(multiprocessors);
    while (launch.threads > 2 * kWarp && blocks_of(launch.threads) < enough) launch.threads /= 2;
  }
  const std::uint64_t most = reduction.ctas > 0 ? static_cast<std::uint64_t>(reduction.ctas)
                                                : 2 * static_cast<std::uint64_t>(multiprocessors) * (kMaxThreads / launch.threads);
  launch.blocks = static_cast<unsigned>(std::max<std::uint64_t>(1, std::min(blocks_of(launch.threads), most)));
}

}  // namespace

std::string kernel_name(anello_dtype_t dtype, anello_op_t op, int granule, bool copies) {
  return copies ? text("anello_copy_", granule) : text("anello_", dtype_name(dtype), "_", op_name(op), "_", granule);
}

Error plan(const CudaReduction& reduction, int multiprocessors, Launch& launch) {
  launch = Launch{};
  if (reduction.count == 0 && is_dtype(reduction.dtype)) return {};
  if (Error error = check(reduction)) return error;

  launch.copies = reduction.sources.size() == 1 && reduction.op != ANELLO_AVG && reduction.scalar == nullptr;
  const RunsAs as = launch.copies ? RunsAs{ANELLO_BYTE, ANELLO_SUM, element_bytes(reduction.dtype)}
                                  : runs_as(reduction.dtype, reduction.op);
  launch.dtype = as.dtype;
  launch.op = as.op;

  Arguments& arguments = launch.arguments;
  arguments.count = reduction.count * as.parts;
  arguments.source_count = static_cast<std::int32_t>(reduction.sources.size());
  arguments.destination_count = static_cast<std::int32_t>(reduction.destinations.size());
  arguments.ranks = reduction.ranks;
  for (std::size_t s = 0; s < reduction.sources.size(); ++s) {
    arguments.sources[s] = static_cast<const unsigned char*>(reduction.sources[s]);
  }
  for (std::size_t d = 0; d < reduction.destinations.size(); ++d) {
    arguments.destinations[d] = static_cast<unsigned char*>(reduction.destinations[d]);
  }
  const std::size_t element = element_bytes(as.dtype);
  if (reduction.scalar != nullptr) {
    for (std::size_t at = 0; at < sizeof arguments.scalar; at += element) {
      std::memcpy(arguments.scalar + at, reduction.scalar, element);
    }
  }
  choose_granule(reduction, element, alignment(as.dtype), launch);
  choose_grid(reduction, arguments.count * element, multiprocessors, launch);
  return {};
}

}  // namespace anello::kernels::cuda
