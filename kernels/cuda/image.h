#pragma once
// The compiled kernels: machine code and PTX, in a library of their own (libanello_cuda.so) that is opened when the
// first kernel is wanted. libanello.so stays small and needs no toolkit to be built.
#include "base/error.h"
#include "kernels/cuda/runs_as.h"

#include <cstddef>
#include <string>

namespace anello::kernels::cuda {

inline constexpr unsigned kImageVersion = 1;  // another one, when what a launch hands over changes

struct Image {
  const unsigned char* start;
  const unsigned char* end;
};

// What the library exports, as anello_cuda_images.
struct ImageTable {
  unsigned version;
  unsigned anello;  // ANELLO_VERSION_CODE
  unsigned count;
  Image images[kImages];
};

// Beside the library or program that holds this code, else where the loader looks; opened once. Throws Error that says
// where it was looked for.
const ImageTable& images();
// Of one file.
const ImageTable& load_images(const std::string& path);

}  // namespace anello::kernels::cuda
