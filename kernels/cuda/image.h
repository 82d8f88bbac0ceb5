#pragma once
// The compiled kernels: machine code and PTX, in a separate library (libanello_cuda.so) that is opened at the first use
// of a kernel. So libanello.so is small and builds without a toolkit.
#include "base/error.h"
#include "kernels/cuda/runs_as.h"

#include <cstddef>
#include <string>

namespace anello::kernels::cuda {

inline constexpr unsigned kImageVersion = 2;  // increased when the arguments of a launch change

struct Image {
  const unsigned char* start;
  const unsigned char* end;
};

// The library exports this as anello_cuda_images.
struct ImageTable {
  unsigned version;
  unsigned anello;  // ANELLO_VERSION_CODE
  unsigned count;
  Image images[kImages];
};

// Opens the library once: beside the library or program that holds this code, otherwise where the loader looks. Throws
// an Error that says where it looked.
const ImageTable& images();
// Opens one file.
const ImageTable& load_images(const std::string& path);

}  // namespace anello::kernels::cuda
