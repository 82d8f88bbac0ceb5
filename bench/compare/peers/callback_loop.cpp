// The loop for libraries of other languages, as a shared library: they give functions. A call through ctypes costs
// below a microsecond, which is part of what is measured.
#include "loop.h"

extern "C" {
struct Callbacks {
  int rank;
  int size;
  const char* version;
  int (*prepare)(float* data, size_t count);  // each 0, or what went wrong is printed and the rank fails
  int (*allreduce)();
  int (*release)();
};
// Pins the calling thread; to be called before join, which the library's threads are made in.
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
