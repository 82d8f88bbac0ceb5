#pragma once
// Memory of a device for test programs, by CUDA's driver, which they find as a user's program does. Where
// LD_LIBRARY_PATH names the folder of the fake driver, that is the fake device's, and nothing of the host can touch it.
#include <cstddef>
#include <cstdint>

namespace anello::test {

// Of this thread, for all that follows; device 0 otherwise.
void use_device(int number);
// Throws std::runtime_error: there is no driver, or no memory.
void* device_allocate(std::size_t bytes);
void device_free(void* at);
// Memory that is mapped in pieces of 2 MiB, as PyTorch's expandable segments are.
class MappedMemory {
 public:
  MappedMemory(int pieces, bool can_be_passed);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  unsigned char* data() const { return reinterpret_cast<unsigned char*>(at_); }
  std::size_t bytes() const { return std::size_t(pieces_) * kPiece; }
  // Other memory takes the place of a piece.
  void replace(int piece);

  static constexpr std::size_t kPiece = std::size_t{2} << 20;

 private:
  void map(int piece);

  const int pieces_;
  const bool can_be_passed_;
  std::uint64_t at_ = 0;
};

// Return when the bytes are there.
void copy_to_device(void* into, const void* from, std::size_t bytes);
void copy_to_host(void* into, const void* from, std::size_t bytes);

// Streams and graphs.
void* make_stream();
void destroy_stream(void* stream);
void wait_for_stream(void* stream);
// Whether it has done all that was enqueued.
bool is_idle(void* stream);
void copy_on_device(void* into, const void* from, std::size_t bytes, void* stream);
void begin_capture(void* stream);
void* end_capture(void* stream);  // a graph that can be replayed
void replay(void* graph, void* stream);
void destroy_graph(void* graph);

bool is_fake_device();
// Of the fake device alone. The call returns the code after so many that work, until it is told 0.
void fail_device_call(const char* call, int code, int after = 0);
// While held, it copies nothing, or no kernel ends.
void hold_device(bool hold);
void hold_kernels(bool hold);
// So many more copies to the host are made, and none behind them; -1: any number.
void hold_fetches(int after);
// Whether what is allocated from now on has a handle for other processes.
void give_handles(bool give);
// What is allocated from now on begins so many bytes behind the beginning of a page.
void shift_allocations(int bytes);
// What its devices say of themselves (CUdevice_attribute).
void set_device_attribute(int attribute, int value);
int device_calls(const char* call);
// Allocations of other processes that are open here.
int device_opened();

}  // namespace anello::test
