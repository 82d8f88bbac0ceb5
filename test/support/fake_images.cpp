// Images for the fake device: each says its number. Also libanello_cuda.so.0 for processes that tests start.
#include "fake_cuda.h"

#include <anello/version.h>

#include <cstring>

using anello::kernels::cuda::ImageTable;
using anello::kernels::cuda::kImages, anello::kernels::cuda::kImageVersion;

namespace {

constexpr char kText[kImages][16] = {"fake image 0", "fake image 1", "fake image 2", "fake image 3", "fake image 4"};

const unsigned char* bytes(const char* text) { return reinterpret_cast<const unsigned char*>(text); }

ImageTable table() {
  ImageTable made{kImageVersion, ANELLO_VERSION_CODE, kImages, {}};
  for (int image = 0; image < kImages; ++image) made.images[image] = {bytes(kText[image]), bytes(kText[image] + 1)};
  return made;
}

}  // namespace

extern "C" {
extern __attribute__((visibility("default"))) const ImageTable anello_cuda_images;
const ImageTable anello_cuda_images = table();
}

namespace anello::testing {

const ImageTable& fake_images() { return anello_cuda_images; }

int fake_image(const void* code) {
  for (int image = 0; image < kImages; ++image) {
    if (std::memcmp(code, kText[image], sizeof kText[image]) == 0) return image;
  }
  return -1;
}

}  // namespace anello::testing
