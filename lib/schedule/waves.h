#pragma once
// The order of the chunks of a schedule's steps.
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
  if (steps == 0) return;
  const std::size_t waves = chunks + static_cast<std::size_t>(steps - 1) * kLead;
  for (std::size_t wave = 0; wave < waves; ++wave)
    for (int i = 0; i < steps; ++i) {
      const std::size_t behind = static_cast<std::size_t>(i) * kLead;
      if (wave >= behind && wave - behind < chunks) step(i, wave - behind);
    }
}

}  // namespace anello::schedule
