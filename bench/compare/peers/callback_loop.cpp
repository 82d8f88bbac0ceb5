// The loop for libraries in other languages, as a shared library to which they pass functions. A call through ctypes
// costs less than a microsecond, which is part of the measured time.
#include "loop.h"

extern "C" {
struct Callbacks {
  int rank;
  int size;
  const char* version;
  int (*prepare)(float* data, size_t count);  // each returns 0, or prints the error and the rank fails
  int (*allreduce)();
  int (*release)();
};
// Pins the calling thread; call it before join, which makes the library's threads.
int (*compare_join)(Callbacks*) = nullptr;
int compare_run(int argc, char** argv, int (*join)(Callbacks*));
}

class Caller final {
 public:
  explicit Caller(const compare::Options&) { require(compare_join(&callbacks_)); }
  int rank() const { return callbacks_.rank; }
  int size() const { return callbacks_.size; }
  std::string version() const { return callbacks_.version; }
  void prepare(float* data, size_t count) { require(callbacks_.prepare(data, count)); }
  void release() { require(callbacks_.release()); }
  void allreduce() { require(callbacks_.allreduce()); }

 private:
  static void require(int result) {
    if (result != 0) throw std::runtime_error("the callback failed");
  }
  Callbacks callbacks_{};
};

int compare_run(int argc, char** argv, int (*join)(Callbacks*)) {
  compare_join = join;
  return compare::run<Caller>(argc, argv);
}
