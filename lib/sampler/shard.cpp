#include "sampler/shard.h"

#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace anello::sampler {

std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::mt19937 next(static_cast<std::uint32_t>(seed));
  // From there on, 32 bits would favour some positions. torch then goes upwards and draws twice for each.
  constexpr std::int64_t kLarge = std::numeric_limits<std::uint32_t>::max() / 20;
  if (n < kLarge) {
    for (std::int64_t i = 0; i + 1 < n; ++i) {
      const std::int64_t other = i + static_cast<std::int64_t>(next()) % (n - i);
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(other)]);
    }
    return order;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t high = next();
    const std::uint64_t drawn = high << 32 | next();
    std::swap(order[static_cast<std::size_t>(i)], order[drawn % static_cast<std::uint64_t>(i + 1)]);
  }
  return order;
}

std::size_t Shard::count() const {
  const auto all = static_cast<std::size_t>(samples), parts = static_cast<std::size_t>(ranks);
  return drop_last ? all / parts : (all + parts - 1) / parts;
}

void Shard::indices(std::uint64_t epoch, std::int64_t* into) const {
  const std::size_t mine = count();
  if (mine == 0) return;
  const auto all = static_cast<std::size_t>(samples), parts = static_cast<std::size_t>(ranks);
  std::size_t at = static_cast<std::size_t>(rank);
  if (!shuffle) {
    for (std::size_t i = 0; i < mine; ++i, at += parts) into[i] = static_cast<std::int64_t>(at % all);
    return;
  }
  const std::vector<std::int64_t> order = permutation(samples, seed + epoch);
  // After its end, the order begins again, as often as needed.
  for (std::size_t i = 0; i < mine; ++i, at += parts) into[i] = order[at % all];
}

}  // namespace anello::sampler
