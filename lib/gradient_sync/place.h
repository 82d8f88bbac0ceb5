#pragma once
// Where gradients and buckets lie: in host memory, or in a device's. A device does all of this in streams, behind what
// was enqueued there before; the host has done it when the function returns, and streams mean nothing to it.
#include <anello/anello.h>

#include <cstddef>
#include <memory>
#include <string>

namespace anello::gradient_sync {

using Memory = std::shared_ptr<std::byte>;
using Stream = void*;  // as in include/anello/stream.h

// to[i] = from[i] * factor (element_copy.h). Memory of the place.
struct Move {
  const void* from;
  anello_dtype_t from_type;
  void* to;
  anello_dtype_t to_type;
  std::size_t count;
  double factor = 1;
  float* residual = nullptr;  // rounding errors so far, which this takes in and replaces
  bool check = false;         // found() tells of infinities and NaN. Not with residual
};

class Place {
 public:
  virtual ~Place() = default;

  // Zeroed, and null for 0 bytes. It goes when own() has done all that was enqueued, or never. Throws Error.
  virtual Memory allocate(std::size_t bytes) = 0;
  // Throws an Error, which begins with `what`, if the memory is not of this place.
  virtual void check(const void* address, std::size_t bytes, const std::string& what) = 0;

  // Throw Error.
  virtual void move(const Move& move, Stream stream) = 0;
  virtual void zero(void* at, std::size_t bytes, Stream stream) = 0;
  // One side is memory of this place; the other may be anywhere.
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  // Whether a move has found an infinity or NaN since this was asked last. They all have ended.
  virtual bool found() = 0;

  virtual bool has_streams() const { return false; }
  // One in which nobody else enqueues anything.
  virtual Stream own() { return nullptr; }
  // What is enqueued in `later` from now on waits for what was enqueued in `earlier` until now. Throws Error.
  virtual void follow(Stream /*later*/, Stream /*earlier*/) {}
  // Likewise for what was enqueued in the stream of the last set_mark until then.
  virtual void set_mark(Stream /*stream*/) {}
  virtual void follow_mark(Stream /*later*/) {}
  // Whether a stream has done all that was enqueued. Throws Error.
  virtual bool is_done(Stream /*stream*/) { return true; }
};

}  // namespace anello::gradient_sync
