// The loop over Anello's public C API. A row that claims shm or tcp is refused if the data would take another path.
// --setting mapped: buffers from anello_mem_alloc, which ranks of a host reach; else from malloc.
#include <anello/anello.h>

#include "loop.h"

class Anello final {
 public:
  explicit Anello(const compare::Options& options) : mapped_(options.setting == "mapped") {
    require(anello_comm_create(nullptr, &comm_));
    require(anello_comm_rank(comm_, &rank_));
    require(anello_comm_size(comm_, &size_));
    for (int peer = 0; peer < size_; ++peer) {
      const char* name = "";
      require(anello_comm_transport(comm_, peer, &name));
      if (peer != rank_ && !options.transport.empty() && options.transport != name)
        throw std::runtime_error("peer " + std::to_string(peer) + " is reached over " + name + ", not " +
                                 options.transport);
    }
  }
  ~Anello() { anello_comm_destroy(comm_); }
  Anello(const Anello&) = delete;
  Anello& operator=(const Anello&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const {
    const int v = anello_version();
    return "Anello " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100) +
           " (" + anello_commit() + ")";
  }

  void* allocate(size_t bytes) {
    void* memory = nullptr;
    if (!mapped_) return compare::malloced(bytes);
    require(anello_mem_alloc(bytes, &memory));
    return memory;
  }
  void deallocate(void* memory) {
    if (mapped_)
      anello_mem_free(memory);
    else
      std::free(memory);
  }

  void prepare(float* data, size_t count) {
    data_ = data;
    count_ = count;
  }
  void release() {}
  void allreduce() { require(anello_allreduce(ANELLO_IN_PLACE, data_, count_, ANELLO_FLOAT32, ANELLO_SUM, comm_)); }

  void operate(compare::Operation operation, const float* in, float* out, size_t count) {
    using compare::Operation;
    constexpr anello_dtype_t kFloat = ANELLO_FLOAT32;
    switch (operation) {
      case Operation::kAllgather: return require(anello_allgather(in, out, count, kFloat, comm_));
      case Operation::kReduceScatter:
        return require(anello_reduce_scatter_block(in, out, count, kFloat, ANELLO_SUM, comm_));
      case Operation::kBroadcast: return require(anello_broadcast(out, count, kFloat, 0, comm_));
      case Operation::kAlltoall: return require(anello_alltoall(in, out, count, kFloat, comm_));
      case Operation::kReduce: return require(anello_reduce(in, out, count, kFloat, ANELLO_SUM, 0, comm_));
      case Operation::kBarrier: return require(anello_barrier(comm_));
      case Operation::kSendrecv:
        return require(in != nullptr ? anello_send(in, count, kFloat, rank_ ^ 1, 0, comm_)
                                     : anello_recv(out, count, kFloat, rank_ ^ 1, 0, comm_, nullptr));
    }
  }

 private:
  void require(anello_result_t result) {
    if (result != ANELLO_OK)
      throw std::runtime_error(std::string(anello_result_name(result)) + ": " + anello_last_error(comm_));
  }

  const bool mapped_;
  anello_comm_t comm_ = ANELLO_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  float* data_ = nullptr;
  size_t count_ = 0;
};

int main(int argc, char** argv) { return compare::run<Anello>(argc, argv); }
