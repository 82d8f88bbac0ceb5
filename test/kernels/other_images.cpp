// Kernels of another build of Anello, as far as one can tell.
#include "kernels/cuda/image.h"

extern "C" __attribute__((visibility("default")))
const anello::kernels::cuda::ImageTable anello_cuda_images{anello::kernels::cuda::kImageVersion, 1, 0, {}};
