// The cost of the steps, for people.
#include "gradient_sync/collective.h"
#include "gradient_sync/gradient_sync.h"

#include <algorithm>
#include <cstdio>

namespace anello::gradient_sync {
namespace {

std::string formatted(const char* format, auto... values) {
  char line[160];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

std::string size_text(std::size_t bytes) {
  if (bytes < 1024) return formatted("%zu B", bytes);
  return bytes < (std::size_t{1} << 20) ? formatted("%.1f KiB", double(bytes) / 1024)
                                        : formatted("%.1f MiB", double(bytes) / (1 << 20));
}

std::string time_text(double ns) {
  return ns < 1e6   ? formatted("%.1f us", ns / 1e3)
         : ns < 1e9 ? formatted("%.2f ms", ns / 1e6)
                    : formatted("%.2f s", ns / 1e9);
}

}  // namespace

void GradientSync::statistics(anello_gradient_sync_statistics_t& to) const {
  to = statistics_;
  to.size = sizeof to;
  to.buckets = buckets_.size();
  to.bytes = 0;
  for (const auto& bucket : buckets_) to.bytes += bucket->plan.count * anello_dtype_size(bucket->wire);
  to.copying_ns = copying_ns_.load(std::memory_order_relaxed);
  to.copied_bytes = copied_bytes_.load(std::memory_order_relaxed);
}

std::string GradientSync::summary() {
  return final([&] {
    require_between_steps("summary");
    anello_gradient_sync_statistics_t mine;
    statistics(mine);
    struct Told {
      std::int64_t steps, computing, communicating, waiting;
    };
    constexpr std::size_t kTold = sizeof(Told) / sizeof(std::int64_t);
    std::vector<Told> all(std::size_t(size_), Told{});
    all[std::size_t(rank_)] = {std::int64_t(mine.steps), mine.computing_ns, mine.communicating_ns, mine.waiting_ns};
    all_.allgather(all.data(), kTold, ANELLO_INT64, "summary");

    Told sum{};
    std::size_t slowest = 0, fastest = 0;
    const auto a_step = [&](std::size_t r) {
      return double(all[r].computing) / double(std::max<std::int64_t>(all[r].steps, 1));
    };
    for (std::size_t r = 0; r < all.size(); ++r) {
      sum.steps += all[r].steps;
      sum.communicating += all[r].communicating;
      sum.waiting += all[r].waiting;
      if (a_step(r) > a_step(slowest)) slowest = r;
      if (a_step(r) < a_step(fastest)) fastest = r;
    }
    std::string line = text(size_, size_ == 1 ? " rank, " : " ranks, ", mine.buckets,
                            mine.buckets == 1 ? " bucket" : " buckets", " of ", size_text(mine.bytes), " in all");
    if (sum.steps == 0) return line + ", no step";
    const double steps = double(sum.steps);
    line += text("; per step and rank ", time_text(double(sum.communicating) / steps), " under way, ",
                 time_text(double(sum.waiting) / steps), " waited for");
    if (sum.communicating > 0) {
      line +=
          formatted(" (%.0f %% hidden)", 100 * (1 - std::min(1.0, double(sum.waiting) / double(sum.communicating))));
    }
    if (size_ > 1) {
      line += a_step(slowest) < 1.05 * a_step(fastest)
                  ? text("; all ranks compute equally long (", time_text(a_step(slowest)), ")")
                  : text("; rank ", slowest, " computes longest (", time_text(a_step(slowest)), ", rank ", fastest, " ",
                         time_text(a_step(fastest)), ")");
    }
    return line;
  });
}

}  // namespace anello::gradient_sync
