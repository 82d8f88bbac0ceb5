// The whole contents of libanello_cuda.so.
#include "kernels/cuda/image.h"

#include <anello/version.h>

#define ANELLO_IMAGE(index)                                   \
  extern "C" const unsigned char anello_cuda_image_##index[]; \
  extern "C" const unsigned char anello_cuda_image_##index##_end[];
ANELLO_IMAGE(0)
ANELLO_IMAGE(1)
ANELLO_IMAGE(2)
ANELLO_IMAGE(3)
ANELLO_IMAGE(4)
#undef ANELLO_IMAGE

using anello::kernels::cuda::ImageTable;
using anello::kernels::cuda::kImages;
using anello::kernels::cuda::kImageVersion;

static_assert(kImages == 5);
#define ANELLO_IMAGE(index) \
  { anello_cuda_image_##index, anello_cuda_image_##index##_end }
extern "C" __attribute__((visibility("default"))) const ImageTable anello_cuda_images{
    kImageVersion,
    ANELLO_VERSION_CODE,
    kImages,
    {ANELLO_IMAGE(0), ANELLO_IMAGE(1), ANELLO_IMAGE(2), ANELLO_IMAGE(3), ANELLO_IMAGE(4)}};
