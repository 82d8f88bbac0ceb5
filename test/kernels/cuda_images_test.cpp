// The library of kernels: found and of this build, or refused with the reason.
#include "kernels/cuda/image.h"

#include <anello/version.h>

#include "support/catch.h"

#include <cstdint>
#include <cstring>
#include <fstream>

namespace anello::kernels::cuda {
namespace {

using Catch::Matchers::Contains;

Error refused(const std::string& path) {
  try {
    load_images(path);
  } catch (const Error& error) {
    return error;
  }
  return {};
}

// A program that gpu-verify carried away has left the build behind.
bool there(const char* path) {
  if (std::ifstream(path)) return true;
  WARN("SKIPPED: " << path << " is not on this machine");
  return false;
}

TEST_CASE("kernels that are not installed, not Anello's, or of another build are told apart") {
  const Error missing = refused("/nowhere/libanello_cuda.so.0");
  CHECK(missing.code() == ANELLO_ERR_SYSTEM);
  CHECK_THAT(missing.text(), Contains("no CUDA kernels: /nowhere/libanello_cuda.so.0: cannot open"));
  const Error foreign = refused("libm.so.6");
  CHECK(foreign.code() == ANELLO_ERR_SYSTEM);
  CHECK_THAT(foreign.text(), Contains("libm.so.6 holds none"));
  if (!there(ANELLO_OTHER_IMAGES)) return;
  const Error other = refused(ANELLO_OTHER_IMAGES);
  CHECK(other.code() == ANELLO_ERR_VERSION);
  CHECK_THAT(other.text(),
             Contains("belongs to another build of Anello (1, ") && Contains("Install both from one build"));
}

#ifdef ANELLO_CUDA_IMAGES
TEST_CASE("this build's library of kernels holds a fat binary for each part") {
  if (!there(ANELLO_CUDA_IMAGES)) return;
  const ImageTable& table = load_images(ANELLO_CUDA_IMAGES);
  CHECK(table.count == kImages);
  for (int image = 0; image < kImages; ++image) {
    const Image& one = table.images[image];
    REQUIRE(one.end - one.start > 1024);
    std::uint32_t magic = 0;
    std::memcpy(&magic, one.start, sizeof magic);
    CHECK(magic == 0xba55ed50u);
    CHECK(reinterpret_cast<std::uintptr_t>(one.start) % 64 == 0);
  }
}
#endif

}  // namespace
}  // namespace anello::kernels::cuda
