#include "device/copies.h"

#include <cstdint>

namespace anello::device {
namespace {

// The driver gives smaller copies to the engine that runs kernels (seen on an H200), unless they are copies of rows.
constexpr std::size_t kLeastForEngine = 32 * 1024;

std::uint64_t number(const std::byte* address) { return reinterpret_cast<std::uint64_t>(address); }

// Two rows, one behind the other.
int enqueue_rows(const kernels::cuda::Driver& driver, std::byte* into, const std::byte* from, std::size_t bytes,
                 void* stream) {
  kernels::cuda::RowsToDevice rows;
  rows.from = from;
  rows.into = number(into);
  rows.row_bytes = rows.from_pitch = rows.into_pitch = bytes / 2;
  rows.rows = 2;
  return driver.copy_rows(&rows, stream);
}

}  // namespace

void enqueue_to_device(const kernels::cuda::Driver& driver, std::byte* into, const std::byte* from, std::size_t bytes,
                       void* stream) {
  if (bytes < kLeastForEngine && bytes > 0 && bytes % 2 == 0)
    return check(driver, "cuMemcpy2DAsync", enqueue_rows(driver, into, from, bytes, stream));
  check(driver, "cuMemcpyHtoDAsync", driver.copy_to_device(number(into), from, bytes, stream));
}

void enqueue_to_host(const kernels::cuda::Driver& driver, std::byte* into, const std::byte* from, std::size_t bytes,
                     void* stream) {
  check(driver, "cuMemcpyDtoHAsync", driver.copy_to_host(into, number(from), bytes, stream));
}

}  // namespace anello::device
