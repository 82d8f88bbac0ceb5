// Model parallelism: each rank holds some layers of one network. Activations go down the ranks and gradients come back
// up, one micro-batch at a time, so that all ranks are busy: while rank 1 works on the first micro-batch, rank 0 works
// on the second.
//
//   anellorun -np 2 ./pipeline
//
// With any number of ranks up to the number of layers, the weights end with the same bits, because the arithmetic is
// the same.
#include "stage.h"

#include <anello/anello.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace pipeline {
namespace {

constexpr std::size_t kMicroBatches = 8, kRows = 32;  // a micro-batch
constexpr int kSteps = 300;
constexpr float kRate = 0.1f;
// Tags for activations going down and gradients coming back. A pair of ranks has one message of each kind for each
// micro-batch of a step, and messages with equal tags keep their order.
constexpr int kActivations = 1, kGradients = 2;

using Clock = std::chrono::steady_clock;

void check(anello_comm_t comm, anello_result_t result, const char* what) {
  if (result == ANELLO_OK) return;
  throw std::runtime_error(std::string(what) + ": " + anello_result_name(result) + ": " + anello_last_error(comm));
}

// The function that the network learns.
float truth(float x, float y) { return std::sin(3 * x) * std::cos(2 * y); }

Matrix samples(int step, std::size_t micro_batch) {
  Matrix points(kRows, 2);
  std::uint32_t state =
      static_cast<std::uint32_t>(step) * 2654435761u + static_cast<std::uint32_t>(micro_batch) * 40503u + 1;
  for (float& value : points.values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return points;
}

class Pipeline {
 public:
  explicit Pipeline(anello_comm_t comm) : comm_(comm) {
    check(comm, anello_comm_rank(comm, &rank_), "rank");
    check(comm, anello_comm_size(comm, &size_), "size");
  }

  void train(Stage& stage) {
    const Clock::time_point start = Clock::now();
    double waited = 0;
    for (int step = 0; step < kSteps; ++step) {
      double loss = 0;
      run_step(stage, step, loss, waited);
      if (is_last() && (step + 1) % 100 == 0) {
        std::printf("step %d/%d  loss %.5f\n", step + 1, kSteps, loss / double(kMicroBatches * kRows));
        std::fflush(stdout);
      }
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    double busy = (seconds - waited) / seconds;
    check(comm_, anello_allreduce(ANELLO_IN_PLACE, &busy, 1, ANELLO_FLOAT64, ANELLO_AVG, comm_), "averaging");
    std::uint64_t hash = stage.hash();
    check(comm_, anello_allreduce(ANELLO_IN_PLACE, &hash, 1, ANELLO_UINT64, ANELLO_BXOR, comm_), "combining hashes");
    if (is_last()) {
      std::printf("%d %s, %zu micro-batches of %zu: stages busy %.0f %% of the time; weights %016llx\n", size_,
                  size_ == 1 ? "stage" : "stages", kMicroBatches, kRows, 100 * busy,
                  static_cast<unsigned long long>(hash));
    }
  }

 private:
  bool is_first() const { return rank_ == 0; }
  bool is_last() const { return rank_ == size_ - 1; }

  void run_step(Stage& stage, int step, double& loss, double& waited) {
    // All receives are posted before the computation, so that messages arrive in their buffers while this rank
    // computes.
    std::vector<Matrix> activations(kMicroBatches), gradients(kMicroBatches), down(kMicroBatches), up(kMicroBatches);
    std::vector<anello_request_t> arriving(kMicroBatches, ANELLO_REQUEST_NULL), returning = arriving;
    std::vector<anello_request_t> leaving(2 * kMicroBatches, ANELLO_REQUEST_NULL);
    for (std::size_t m = 0; m < kMicroBatches; ++m) {
      if (!is_first()) receive(activations[m], stage.inputs(), rank_ - 1, kActivations, &arriving[m]);
      if (!is_last()) receive(gradients[m], stage.outputs(), rank_ + 1, kGradients, &returning[m]);
    }
    for (std::size_t m = 0; m < kMicroBatches; ++m) {
      const Matrix points = samples(step, m);
      if (!is_first()) wait(&arriving[m], "activations", waited);
      down[m] = stage.forward(m, is_first() ? points : std::move(activations[m]));
      if (!is_last()) {
        send(down[m], rank_ + 1, kActivations, &leaving[m]);
        continue;
      }
      gradients[m] = Matrix(kRows, 1);
      for (std::size_t row = 0; row < kRows; ++row) {
        const float error = down[m].at(row, 0) - truth(points.at(row, 0), points.at(row, 1));
        loss += double(error) * error;
        gradients[m].at(row, 0) = 2 * error / float(kMicroBatches * kRows);
      }
    }
    for (std::size_t m = 0; m < kMicroBatches; ++m) {
      if (!is_last()) wait(&returning[m], "gradients", waited);
      up[m] = stage.backward(m, std::move(gradients[m]));
      if (!is_first()) send(up[m], rank_ - 1, kGradients, &leaving[kMicroBatches + m]);
    }
    // The sent data lies in down and up, which end here.
    check(comm_, anello_wait_all(leaving.size(), leaving.data(), nullptr), "sending");
    stage.update(kRate);
  }

  void receive(Matrix& into, std::size_t columns, int from, int tag, anello_request_t* request) {
    into = Matrix(kRows, columns);
    check(comm_, anello_irecv(into.values.data(), into.values.size(), ANELLO_FLOAT32, from, tag, comm_, request),
          "receiving");
  }
  void send(const Matrix& what, int to, int tag, anello_request_t* request) {
    check(comm_, anello_isend(what.values.data(), what.values.size(), ANELLO_FLOAT32, to, tag, comm_, request),
          "sending");
  }
  void wait(anello_request_t* request, const char* what, double& waited) {
    const Clock::time_point start = Clock::now();
    check(comm_, anello_wait(request, nullptr), what);
    waited += std::chrono::duration<double>(Clock::now() - start).count();
  }

  anello_comm_t comm_;
  int rank_ = 0, size_ = 1;
};

int run() {
  anello_comm_t comm = ANELLO_COMM_NULL;
  check(ANELLO_COMM_NULL, anello_comm_create(nullptr, &comm), "joining the other ranks");
  int exit_code = 0;
  try {
    const std::vector<std::size_t> widths = {2, 48, 48, 48, 1};
    const std::size_t layers = widths.size() - 1;
    int rank = 0, size = 1;
    check(comm, anello_comm_rank(comm, &rank), "rank");
    check(comm, anello_comm_size(comm, &size), "size");
    if (std::size_t(size) > layers)
      throw std::runtime_error(std::to_string(size) + " ranks, but " + std::to_string(layers) + " layers");
    Stage stage(widths, layers * std::size_t(rank) / std::size_t(size),
                layers * std::size_t(rank + 1) / std::size_t(size), kMicroBatches);
    Pipeline(comm).train(stage);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    exit_code = 1;
  }
  (void)anello_comm_destroy(comm);
  return exit_code;
}

}  // namespace
}  // namespace pipeline

int main() {
  try {
    return pipeline::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    return 1;
  }
}
