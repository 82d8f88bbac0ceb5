// The loop over oneCCL's library for processors; CCL_ATL_TRANSPORT chooses its transport. No MPI is needed: ranks find
// each other through a file in --directory.
#include <oneapi/ccl.hpp>

#include "loop.h"

class OneCcl final {
 public:
  explicit OneCcl(const compare::Options& options)
      : rank_(number("RANK")), size_(number("WORLD_SIZE")), communicator_(join(options, rank_, size_)) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string version() const {
    const auto version = ccl::get_library_version();
    return "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.update);
  }

  void prepare(float* data, size_t count) {
    data_ = data;
    count_ = count;
  }
  void release() {}
  void allreduce() {
    ccl::allreduce(data_, data_, count_, ccl::datatype::float32, ccl::reduction::sum, communicator_).wait();
  }

 private:
  static int number(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
    return std::atoi(value);
  }

  static ccl::communicator join(const compare::Options& options, int rank, int size) {
    ccl::init();
    const std::string path = options.directory + "/address";
    ccl::shared_ptr_class<ccl::kvs> store;
    if (rank == 0) {
      store = ccl::create_main_kvs();
      const ccl::kvs::address_type address = store->get_address();
      std::ofstream(path + ".new", std::ios::binary)
          .write(address.data(), static_cast<std::streamsize>(address.size()));
      std::rename((path + ".new").c_str(), path.c_str());
    } else {
      ccl::kvs::address_type address;
      const double end = compare::now_seconds() + options.limit;
      std::ifstream file(path, std::ios::binary);
      for (; !file; file.open(path, std::ios::binary)) {
        if (compare::now_seconds() > end) throw std::runtime_error("rank 0 gives no address");
        usleep(1000);
      }
      file.read(address.data(), static_cast<std::streamsize>(address.size()));
      store = ccl::create_kvs(address);
    }
    return ccl::create_communicator(size, rank, store);
  }

  const int rank_;
  const int size_;
  ccl::communicator communicator_;
  float* data_ = nullptr;
  size_t count_ = 0;
};

int main(int argc, char** argv) { return compare::run<OneCcl>(argc, argv); }
