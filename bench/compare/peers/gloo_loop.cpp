// The loop over Gloo, whose only transport in Debian's build is TCP. --setting ALGORITHM[+sync]:
//   ring, bcube                     gloo::allreduce with that algorithm, one options object for all calls
//   ring_chunked, halving_doubling  the older classes, which keep their own buffers
//   +sync                           (older classes only) the calling thread polls the sockets, no epoll thread
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "loop.h"

class Gloo final {
 public:
  explicit Gloo(const compare::Options& options) : algorithm_(options.setting) {
    const char* rank = std::getenv("RANK");
    const char* size = std::getenv("WORLD_SIZE");
    if (rank == nullptr || size == nullptr) throw std::runtime_error("RANK and WORLD_SIZE are not set");
    const size_t plus = algorithm_.find("+sync");
    const bool sync = plus != std::string::npos;
    algorithm_.resize(std::min(plus, algorithm_.size()));
    if (sync && !older()) throw std::runtime_error("+sync needs one of Gloo's older algorithms");
    gloo::transport::tcp::attr attributes;
    const char* interface = std::getenv("COMPARE_INTERFACE");
    attributes.iface = interface != nullptr ? interface : "lo";
    context_ = std::make_shared<gloo::rendezvous::Context>(std::atoi(rank), std::atoi(size));
    context_->setTimeout(std::chrono::seconds(60));
    gloo::rendezvous::FileStore store(options.directory);
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context_->connectFullMesh(store, device);
    if (!sync) return;
    for (int peer = 0; peer < context_->size; ++peer)
      if (peer != context_->rank) context_->getPair(peer)->setSync(true, true);
  }

  int rank() const { return context_->rank; }
  int size() const { return context_->size; }
  std::string version() const {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
           std::to_string(GLOO_VERSION_PATCH) + " (Debian)";
  }

  void prepare(float* data, size_t count) {
    const std::vector<float*> pointers{data};
    if (algorithm_ == "ring_chunked") {
      older_ = std::make_unique<gloo::AllreduceRingChunked<float>>(context_, pointers, static_cast<int>(count));
    } else if (algorithm_ == "halving_doubling") {
      older_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, pointers, static_cast<int>(count));
    } else {
      using Options = gloo::AllreduceOptions;
      call_ = std::make_unique<Options>(context_);
      call_->setAlgorithm(algorithm_ == "ring" ? Options::Algorithm::RING : Options::Algorithm::BCUBE);
      call_->setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      call_->setOutput(data, count);
    }
  }
  void release() {
    older_.reset();
    call_.reset();
  }
  void allreduce() {
    if (older_) {
      older_->run();
    } else {
      gloo::allreduce(*call_);
    }
  }

 private:
  bool older() const { return algorithm_ == "ring_chunked" || algorithm_ == "halving_doubling"; }

  std::string algorithm_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<gloo::Algorithm> older_;
  std::unique_ptr<gloo::AllreduceOptions> call_;
};

int main(int argc, char** argv) { return compare::run<Gloo>(argc, argv); }
