#include "model/deliberate.h"

#include "model/pending.h"

namespace anello::model {
namespace {

constexpr auto kType = ANELLO_FLOAT32;

class Mistake {
 public:
  Mistake(const Step& step, int rank, int size, anello_comm_t comm)
      : step_(step),
        rank_(rank),
        size_(size),
        odd_(rank == step.culprit),
        comm_(comm),
        input_(step.count + 8, 1.0f),
        output_((step.count + 8) * std::size_t(size)) {}

  void run() {
    switch (step_.fault) {
      case Fault::truncate: return truncate();
      case Fault::abort: return abort();
      case Fault::leave: return leave();
      default: disagree();
    }
  }

 private:
  void expect(anello_result_t got, anello_result_t expected, const char* what) const {
    if (got == expected) return;
    throw Wrong(std::string(what) + " on rank " + std::to_string(rank_) + " gives " + said(got, comm_) + ", not " +
                anello_result_name(expected));
  }

  void truncate() {
    const int sender = (step_.culprit + 1) % size_;
    if (rank_ == sender)
      expect(anello_send(input_.data(), step_.count, kType, step_.culprit, 3, comm_), ANELLO_OK, "the send");
    if (odd_) {
      expect(anello_recv(output_.data(), step_.count - 1, kType, sender, 3, comm_, nullptr), ANELLO_ERR_TRUNCATE,
             "the receive");
    }
    expect(anello_barrier(comm_), ANELLO_OK, "the barrier after it");
    expect(anello_comm_destroy(comm_), ANELLO_OK, "destroy");
  }

  void abort() {
    if (odd_) expect(anello_comm_abort(comm_, "deliberately"), ANELLO_OK, "abort");
    expect(anello_barrier(comm_), ANELLO_ERR_ABORTED, "the barrier");
    expect(anello_comm_destroy(comm_), ANELLO_ERR_ABORTED, "destroy");
  }

  void leave() {
    if (odd_) return expect(anello_comm_destroy(comm_), ANELLO_OK, "destroy");
    expect(anello_barrier(comm_), ANELLO_ERR_PEER_LOST, "the barrier");
    expect(anello_comm_destroy(comm_), ANELLO_ERR_PEER_LOST, "destroy");
  }

  // The call itself may end well for a rank that needs nobody; the next one does not.
  void disagree() {
    const anello_result_t own = refused();
    const anello_result_t result = call();
    if (own != ANELLO_OK) {
      expect(result, own, "the call");
    } else if (result != ANELLO_OK) {
      expect(result, ANELLO_ERR_MISMATCH, "the call");
    }
    expect(anello_barrier(comm_), ANELLO_ERR_MISMATCH, "the barrier after it");
    expect(anello_comm_destroy(comm_), ANELLO_ERR_MISMATCH, "destroy");
  }
  // What the culprit's own call is refused with.
  anello_result_t refused() const {
    if (!odd_) return ANELLO_OK;
    if (step_.fault == Fault::bad_root || step_.fault == Fault::null_buffer) return ANELLO_ERR_ARGUMENT;
    return step_.fault == Fault::bad_type ? ANELLO_ERR_TYPE : ANELLO_OK;
  }
  anello_result_t call() {
    const std::size_t n = step_.count;
    float* const in = input_.data();
    float* const out = output_.data();
    switch (step_.fault) {
      case Fault::count: return anello_allreduce(in, out, odd_ ? n + 1 : n, kType, ANELLO_SUM, comm_);
      case Fault::root: return anello_reduce(in, out, n, kType, ANELLO_SUM, odd_ ? 1 : 0, comm_);
      case Fault::dtype: return anello_allreduce(in, out, n, odd_ ? ANELLO_INT32 : kType, ANELLO_SUM, comm_);
      case Fault::kind: return odd_ ? anello_barrier(comm_) : anello_allgather(in, out, n, kType, comm_);
      case Fault::bad_root: return anello_broadcast(in, n, kType, odd_ ? size_ : 0, comm_);
      case Fault::bad_type: return anello_allreduce(in, out, n, kType, odd_ ? ANELLO_BAND : ANELLO_MAX, comm_);
      case Fault::null_buffer: return anello_allreduce(in, odd_ ? nullptr : out, n, kType, ANELLO_SUM, comm_);
      default: break;
    }
    // A part of gatherv that its root expects to be another.
    const std::vector<std::size_t> counts(std::size_t(size_), n);
    std::vector<std::size_t> displs;
    for (int p = 0; p < size_; ++p) displs.push_back(std::size_t(p) * n);
    const int root = (step_.culprit + 1) % size_;
    return anello_gatherv(in, odd_ ? n + 1 : n, out, counts.data(), displs.data(), kType, root, comm_);
  }

  const Step& step_;
  int rank_;
  int size_;
  bool odd_;
  anello_comm_t comm_;
  std::vector<float> input_, output_;
};

}  // namespace

void make_error(const Step& step, int rank, int size, anello_comm_t comm) {
  if (size < 2) return;
  anello_comm_t own = ANELLO_COMM_NULL;
  if (const anello_result_t result = anello_comm_dup(comm, &own); result != ANELLO_OK)
    throw Wrong("dup gives " + said(result, comm));
  Mistake(step, rank, size, own).run();
  if (const anello_result_t result = anello_barrier(comm); result != ANELLO_OK) {
    throw Wrong("after the error, the barrier on another communicator gives " + said(result, comm));
  }
}

}  // namespace anello::model
