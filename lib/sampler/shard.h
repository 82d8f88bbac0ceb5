#pragma once
// The index lists of PyTorch's DistributedSampler (torch/utils/data/distributed.py) and of the permutation that it
// takes (torch.randperm on a CPU), from their documented behaviour. It is a pure function of values that all ranks
// know.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::sampler {

struct Shard {
  std::int64_t samples = 0;
  int rank = 0;
  int ranks = 1;
  bool shuffle = true;
  bool drop_last = false;
  std::uint64_t seed = 0;

  std::size_t count() const;
  void indices(std::uint64_t epoch, std::int64_t* into) const;
};

// 0..n-1 as torch.randperm(n) orders them with a generator of that seed.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed);

}  // namespace anello::sampler
