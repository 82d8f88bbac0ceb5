#include "kernels/reduce_cuda.h"

#include "base/text.h"

#include <algorithm>
#include <cstdint>

namespace anello::kernels {
namespace {

using cuda::kMoves, cuda::MovePair;

constexpr unsigned kThreads = 256;
constexpr std::size_t kPacketBytes = 16;  // of the larger side, and of residuals

const MovePair* pair_of(anello_dtype_t from, anello_dtype_t to) {
  return std::find_if(std::begin(kMoves), std::end(kMoves),
                      [&](const MovePair& pair) { return pair.from == from && pair.to == to; });
}

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

Error refused(anello_result_t code, const CudaMove& move, const std::string& why) {
  return {code, text("CUDA move of ", dtype_name(move.from_type), " to ", dtype_name(move.to_type), ": ", why)};
}

Error check(const CudaMove& move) {
  if (pair_of(move.from_type, move.to_type) == std::end(kMoves))
    return refused(ANELLO_ERR_TYPE, move, "there is no kernel for these types");
  if (move.from == nullptr || move.to == nullptr) return refused(ANELLO_ERR_ARGUMENT, move, "a pointer is null");
  if (!is_aligned(move.from, cuda::alignment(move.from_type)) || !is_aligned(move.to, cuda::alignment(move.to_type)) ||
      !is_aligned(move.residual, alignof(float)))
    return refused(ANELLO_ERR_ARGUMENT, move, "an address is not aligned for its type, which a device needs");
  const bool rounds = move.from_type == ANELLO_FLOAT32 && cuda::element_bytes(move.to_type) == 2;
  if (move.residual != nullptr && !rounds)
    return refused(ANELLO_ERR_ARGUMENT, move, "only a move from float32 to 16 bits leaves rounding errors");
  return {};
}

}  // namespace

Error CudaReducer::move(const CudaMove& move) {
  if (move.count == 0) return {};
  if (Error error = check(move)) return error;
  void* kernel = nullptr;
  if (Error error = find_move(move.from_type, move.to_type, kernel)) return error;
  const std::size_t from_bytes = cuda::element_bytes(move.from_type), to_bytes = cuda::element_bytes(move.to_type);
  const std::size_t packet = kPacketBytes / std::max(from_bytes, to_bytes);
  const bool has_packets = is_aligned(move.from, packet * from_bytes) && is_aligned(move.to, packet * to_bytes) &&
                           is_aligned(move.residual, packet * sizeof(float));
  cuda::MoveArguments arguments{static_cast<const unsigned char*>(move.from),
                                static_cast<unsigned char*>(move.to),
                                move.residual,
                                move.found,
                                move.count,
                                move.factor,
                                has_packets ? 1 : 0};
  const std::size_t each = has_packets ? packet : 1;
  const std::uint64_t threads = (move.count + each - 1) / each;
  constexpr std::uint64_t kMostBlocks = (std::uint64_t{1} << 31) - 1;
  const auto blocks = static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kMostBlocks));
  void* parameters[] = {&arguments};
  const int code = driver_.launch(kernel, blocks, 1, 1, kThreads, 1, 1, 0, move.stream, parameters, nullptr);
  return code == 0 ? Error() : cuda::driver_error(driver_, "cuLaunchKernel", code);
}

Error CudaReducer::prepare_moves() {
  for (const MovePair& pair : kMoves) {
    void* kernel = nullptr;
    if (Error error = find_move(pair.from, pair.to, kernel)) return error;
    if (Error error = load(kernel)) return error;
  }
  return {};
}

// They are in the image of copies.
Error CudaReducer::find_move(anello_dtype_t from, anello_dtype_t to, void*& kernel) {
  const auto index = static_cast<std::size_t>(pair_of(from, to) - std::begin(kMoves));
  return find_named(moves_[index], cuda::image_of(ANELLO_BYTE),
                    text("anello_move_", dtype_name(from), "_", dtype_name(to)), kernel);
}

}  // namespace anello::kernels
