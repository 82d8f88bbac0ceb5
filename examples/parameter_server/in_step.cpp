// For the test, by LD_PRELOAD: a worker sends a gradient once each worker has the weights for its own of the same
// number, so that no order of the processes makes gradients fresh. The workers meet in the folder IN_STEP.
#include "channel.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

// Each worker's file has as many bytes as it has had weights.
void wait_for_all(const std::filesystem::path& folder) {
  static std::ofstream own(folder / std::getenv("RANK"));
  static std::uintmax_t steps = 0;
  own << '.' << std::flush;
  ++steps;
  const int ranks = std::atoi(std::getenv("WORLD_SIZE"));
  for (int worker = 1; worker < ranks; ++worker) {
    std::error_code none_yet;
    const std::filesystem::path its = folder / std::to_string(worker);
    while (!std::filesystem::exists(its) || std::filesystem::file_size(its, none_yet) < steps) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

}  // namespace

anello_result_t anello_send(const void* buffer, size_t count, anello_dtype_t dtype, int dest, int tag,
                            anello_comm_t comm) {
  if (const char* const folder = std::getenv("IN_STEP"); folder != nullptr && tag == parameter_server::kGradient) {
    wait_for_all(folder);
  }
  static const auto send = reinterpret_cast<decltype(&anello_send)>(dlsym(RTLD_NEXT, "anello_send"));
  return send(buffer, count, dtype, dest, tag, comm);
}
