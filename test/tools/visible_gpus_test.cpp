#include "anellorun/visible_gpus.h"
#include "support/catch.h"

#include <utility>

using anellorun::visible_gpus;

TEST_CASE("GPUs count up to the first entry that CUDA does not take") {
  const std::pair<const char*, int> kLists[] = {
      {"0", 1},    {"3,1", 2}, {"0, 2", 2},       {"0,1,2,3", 4}, {"GPU-8932f937-d72c,MIG-GPU-8932f937", 2},
      {"", 0},     {"-1", 0},  {"NoDevFiles", 0}, {"0,-1,1", 1},  {"0,1,4,2", 2},
      {"0,,1", 1}, {"1,", 1},  {"0x,1", 0},       {"GPU-,1", 0},  {"99999999999", 0}};
  for (const auto& [list, count] : kLists) {
    INFO(list);
    CHECK(visible_gpus(list, 4) == count);
  }
  CHECK(visible_gpus("GPU-a,GPU-b", 1) == 1);
  CHECK(visible_gpus("0", 0) == 0);
}
