#pragma once
#include <string_view>

namespace anellorun {

// How many of the host's GPUs CUDA_VISIBLE_DEVICES leaves to a program. As in CUDA, the first entry that is neither the
// index of a GPU nor a UUID hides itself and all after it.
int visible_gpus(std::string_view list, int gpus);

}  // namespace anellorun
