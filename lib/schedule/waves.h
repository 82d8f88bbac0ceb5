#pragma once
// The order of the chunks of a schedule's steps.
#include <algorithm>
#include <cstddef>

namespace anello::schedule {

// The number of chunks by which a step runs ahead of the next one: enough for the neighbour's answer, few enough for a
// cache.
inline constexpr std::size_t kLead = 4;

// Calls step(i, chunk) for all i below `steps`. Steps of one chunk follow each other kLead chunks apart, not after all
// chunks of the previous step. So reduced data is sent, and sent data is overwritten, while it is still in the cache,
// and both directions are always busy.
template <class Step>
void in_waves(int steps, std::size_t chunks, Step&& step) {
  if (steps == 0 || chunks == 0) return;
  const auto last = static_cast<std::size_t>(steps - 1);
  const std::size_t waves = chunks + last * kLead;
  for (std::size_t wave = 0; wave < waves; ++wave) {
    // Step i has its chunk wave - i * kLead in this wave, if it has such a chunk.
    const std::size_t begin = wave < chunks ? 0 : (wave - chunks) / kLead + 1;
    const std::size_t end = std::min(last, wave / kLead);
    for (std::size_t i = begin; i <= end; ++i) step(static_cast<int>(i), wave - i * kLead);
  }
}

}  // namespace anello::schedule
