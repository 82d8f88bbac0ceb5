#pragma once
// The device resources of the rows, as owning objects: memory, a stream with a clock, graphs. Every failure throws
// anello::Error.
#include "kernels/reduce_cuda.h"

#include <cstdint>
#include <functional>
#include <string>

namespace gpu {

using anello::kernels::CudaReduction;
using anello::kernels::cuda::Driver;

// The driver and the kernels for the rows: the machine's, or a test's.
struct Platform {
  const Driver& driver;
  const anello::kernels::cuda::ImageTable& images;
};
// Throws Error if there is no driver or no kernels. images: a file, or empty for the one beside this program.
Platform platform(const std::string& images);

class Memory {
 public:
  Memory(const Driver& driver, std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  unsigned char* at(std::size_t offset = 0) const { return reinterpret_cast<unsigned char*>(address_) + offset; }
  std::uint64_t address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const Driver& driver_;
  std::uint64_t address_ = 0;
  std::size_t bytes_;
};

// The first device's primary context, current in this thread while it lives, a stream in it, and the reducer.
class Device {
 public:
  explicit Device(const Platform& platform);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  void* stream() const { return stream_; }
  int attribute(int number) const;
  std::string name() const;

  void upload(unsigned char* into, const void* from, std::size_t bytes);
  void download(void* into, const unsigned char* from, std::size_t bytes);
  void fill(unsigned char* into, unsigned char value, std::size_t bytes);
  void copy(unsigned char* into, const unsigned char* from, std::size_t bytes);
  // In this device's stream.
  void reduce(CudaReduction reduction);
  void wait();

  // The median time of work in the stream, in milliseconds: 5 unmeasured rounds, then this many measured ones.
  double median_ms(const std::function<void(int round)>& work, int rounds = 20);
  // The median time of one part of a replayed graph that was captured with this many parts.
  double replayed_ms(const std::function<void(int part)>& work, int parts = 20);

  void check(const char* call, int code) const;

 private:
  const Driver& driver_;
  int number_ = 0;
  void* stream_ = nullptr;
  void *begin_ = nullptr, *end_ = nullptr;
  anello::kernels::CudaReducer reducer_;
};

}  // namespace gpu
