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
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\t' || c == '"' || c == '\\'; }, ' ');
    const auto both_blank = [](char a, char b) { return a == ' ' && b == ' '; };
    line.erase(std::unique(line.begin(), line.end(), both_blank), line.end());
    return line;
  }

  void prepare(float* data, size_t count) {
    data_ = data;
    count_ = static_cast<int>(count);
  }
  void release() {}
  void allreduce() { require(MPI_Allreduce(MPI_IN_PLACE, data_, count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)); }

  void operate(compare::Operation operation, const float* in, float* out, size_t elements) {
    using compare::Operation;
    const int count = static_cast<int>(elements);
    const MPI_Datatype kFloat = MPI_FLOAT;
    switch (operation) {
      case Operation::kAllgather: return require(MPI_Allgather(in, count, kFloat, out, count, kFloat, MPI_COMM_WORLD));
      case Operation::kReduceScatter:
        return require(MPI_Reduce_scatter_block(in, out, count, kFloat, MPI_SUM, MPI_COMM_WORLD));
      case Operation::kBroadcast: return require(MPI_Bcast(out, count, kFloat, 0, MPI_COMM_WORLD));
      case Operation::kAlltoall: return require(MPI_Alltoall(in, count, kFloat, out, count, kFloat, MPI_COMM_WORLD));
      case Operation::kReduce: return require(MPI_Reduce(in, out, count, kFloat, MPI_SUM, 0, MPI_COMM_WORLD));
      case Operation::kBarrier: return require(MPI_Barrier(MPI_COMM_WORLD));
      case Operation::kSendrecv:
        return require(in != nullptr ? MPI_Send(in, count, kFloat, rank_ ^ 1, 0, MPI_COMM_WORLD)
                                     : MPI_Recv(out, count, kFloat, rank_ ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
  }

 private:
  static void require(int result) {
    if (result != MPI_SUCCESS) throw std::runtime_error("the MPI call failed");
  }

  int rank_ = 0;
  int size_ = 0;
  float* data_ = nullptr;
  int count_ = 0;
};

int main(int argc, char** argv) { return compare::run<Mpi>(argc, argv); }
