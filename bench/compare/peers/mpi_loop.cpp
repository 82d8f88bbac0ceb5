// The loop over MPI; built once against Open MPI and once against MPICH.
#include <mpi.h>

#include "loop.h"

class Mpi final {
 public:
  explicit Mpi(const compare::Options&) {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~Mpi() { MPI_Finalize(); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Up to the first comma or line end: "Open MPI v4.1.4", "MPICH Version: 4.0.2".
  std::string version() const {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string line(text, static_cast<size_t>(length));
    line.resize(std::min(line.find_first_of(",\n"), line.size()));
    std::replace_if(line.begin(), line.end(), [](char c) { return c == '\t' || c == '"' || c == '\\'; }, ' ');
    return line;
  }

  void prepare(float* data, size_t count) {
    data_ = data;
    count_ = static_cast<int>(count);
  }
  void release() {}
  void allreduce() {
    if (MPI_Allreduce(MPI_IN_PLACE, data_, count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
      throw std::runtime_error("MPI_Allreduce failed");
  }

 private:
  int rank_ = 0;
  int size_ = 0;
  float* data_ = nullptr;
  int count_ = 0;
};

int main(int argc, char** argv) { return compare::run<Mpi>(argc, argv); }
