// The part of gpu-verify that needs the device: runs one row and writes its results, one line of JSON per check.
#include "gpu/check.h"
#include "gpu/rows.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Row {
  const char* name;
  void (*run)(gpu::Device& device, const gpu::Sizes& sizes);
};
const Row kRows[] = {
    {"0", [](gpu::Device& device, const gpu::Sizes&) { gpu::inventory(device); }},
    {"2", gpu::roofline},
    {"3", gpu::correctness},
    {"4", gpu::rates},
    {"4b", gpu::operations},
    {"4c", gpu::shapes},
    {"4d", gpu::beside_others},
    {"4e", gpu::curve},
};

constexpr int kUsage = 2, kNoDevice = 77;

int usage() {
  std::fprintf(stderr,
               "usage: gpu-verify-device ROW [--images FILE] [--small]\n"
               "ROW: 0 2 3 4 4b 4c 4d 4e; exit code 77: there is no device to run it on\n");
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  std::string images;
  gpu::Sizes sizes;
  const Row* row = nullptr;
  for (const Row& one : kRows) {
    if (argc > 1 && std::strcmp(argv[1], one.name) == 0) row = &one;
  }
  if (row == nullptr) return usage();
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--images") == 0 && i + 1 < argc) {
      images = argv[++i];
    } else if (std::strcmp(argv[i], "--small") == 0) {
      sizes = {std::size_t{1} << 18, 5003, false};
    } else {
      return usage();
    }
  }
  try {
    const gpu::Platform platform = gpu::platform(images);
    gpu::Device device(platform);
    row->run(device, sizes);
  } catch (const anello::Error& error) {
    const bool absent =
        error.text().rfind("no CUDA driver", 0) == 0 || error.text().find("CUDA_ERROR_NO_DEVICE") != std::string::npos;
    gpu::write(
        {"row " + std::string(row->name), absent ? gpu::Verdict::skip : gpu::Verdict::fail, "", "", error.text()});
    return absent ? kNoDevice : 1;
  }
  return gpu::failures() == 0 ? 0 : 1;
}
