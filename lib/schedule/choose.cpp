#include "schedule/choose.h"

#include "base/text.h"
#include "schedule/hosts.h"
#include "schedule/shape.h"
#include "schedule/tuning.h"

#include <algorithm>
#include <cstdint>

namespace anello::schedule {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kAny = SIZE_MAX;
// With more ranks than processors each hand-over may cost a time slice: fewer, larger chunks.
constexpr std::size_t kOversubscribedFactor = 4;
// Chunks begin at multiples of this in their block, so that vector loads stay aligned where the caller's buffer is.
constexpr std::size_t kAlignBytes = 64;

std::size_t chunk_for(const Call& call, const Topology& topology, const Algorithm& algorithm, std::size_t chunk_bytes) {
  const auto size = static_cast<std::size_t>(topology.size);
  const std::size_t longest = algorithm.cuts_blocks ? call.count / size + 1 : call.count;
  const std::size_t least = longest / algorithm.most_chunks + (longest % algorithm.most_chunks != 0 ? 1 : 0);
  std::size_t chunk = std::max({chunk_bytes / call.element_bytes, least, std::size_t{1}});
  const std::size_t align = std::max<std::size_t>(kAlignBytes / call.element_bytes, 1);
  if (chunk > align) chunk = (chunk + align - 1) / align * align;
  return chunk;
}

struct WishItem {
  std::string_view collective;  // empty: all that have the algorithm
  std::string_view algorithm;
};

// "ring" or "allreduce:ring,broadcast:tree", cut up.
std::vector<WishItem> items(const Wish& wish) {
  std::vector<WishItem> result;
  std::string_view rest = wish.algorithm;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      result.push_back({{}, item});
    else
      result.push_back({item.substr(0, colon), item.substr(colon + 1)});
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return result;
}

// What the wish says for this collective, a pair before a bare name; empty for nothing.
std::string_view wished(const Wish& wish, Collective collective) {
  std::string_view bare;
  for (const WishItem& item : items(wish)) {
    if (item.collective == name(collective)) return item.algorithm;
    if (item.collective.empty() && find(collective, item.algorithm) != nullptr) bare = item.algorithm;
  }
  return bare;
}

std::size_t payload_bytes(const Call& call, const Topology& topology) {
  return largest_input(call, topology.size) * call.element_bytes;
}

bool fits_crowd(Crowd crowd, const Topology& topology) {
  if (crowd == Crowd::any) return true;
  if (crowd == Crowd::crowded) return topology.oversubscribed;
  if (crowd == Crowd::nested) return is_nested(topology);
  const auto few = [&] { return std::ranges::max(topology.processors_of) < kFewProcessors; };
  return takes_turns_bound(topology) && (crowd == Crowd::bound || few());
}

bool fits_place(Where where, const Topology& topology) {
  if (where == Where::anywhere) return true;
  if (where == Where::shared) return !topology.network && topology.staging_bytes > 0;
  return (where == Where::network) == topology.network;
}

bool holds(const Rule& rule, const Call& call, const Topology& topology) {
  const std::size_t bytes = payload_bytes(call, topology);
  return rule.collective == call.collective && fits_crowd(rule.crowd, topology) && fits_place(rule.where, topology) &&
         topology.size >= rule.from_ranks && topology.size <= rule.up_to_ranks && call.reach >= rule.reach &&
         bytes >= rule.from_bytes && bytes <= rule.up_to_bytes &&
         bytes <= rule.up_to_bytes_total / static_cast<std::size_t>(topology.size);
}

std::string name_of(const Rule& rule, const Wish& wish) {
  if (rule.line > 0) return text("Line ", rule.line, " of ", wish.tuning->from);
  return text("Rule ", &rule - rules().data() + 1, " of ", rules().size());
}

// Whether the row would do this call if ranks had this reach.
bool could_reach(Call call, Reach reach, const Topology& topology, const Algorithm& row) {
  call.reach = reach;
  return row.fits(call, topology);
}

std::string collective_names() {
  std::string names;
  for (const Collective each : kCollectives) names += text(names.empty() ? "" : ", ", name(each));
  return names;
}

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& row : catalog())
    if (row.collective == collective) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace

std::string_view rules_measured_on() {
  return "memory: AMD EPYC, 2 processors, 2 to 8 ranks, and an Intel Xeon, 2 processors without a common cache, "
         "for staged_leaders, calls of 2 ranks up to 48 KiB, and broadcasts and alltoalls of 4; "
         "network: loopback on both, and 2 to 8 namespaces joined at 1 Gbit/s";
}

const std::vector<Rule>& rules() {
  using enum Collective;
  using enum Where;
  using enum Reach;
  using enum Crowd;
  // clang-format off
  static const std::vector<Rule> table = {
      // collective    where     bytes     of all     algorithm        chunk       reach, from bytes, from ranks
      // A rule that reads other processes is followed only while that is fast (memory/read_policy.h): where their lines
      // are far and
      // rewritten it takes two to seven times as long as staging, and where nobody rewrites them half as long.
      // Over peers' memory the executor cuts, every 256 KiB; larger chunks are what ranks in place set aside at a time.
      {allreduce,      anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {allreduce,      memory,   8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {allreduce,      memory,   kAny,     kAny,      "direct",        256 * kKiB, store, kKiB + 1, 2, 2},
      {allreduce,      memory,   kAny,     kAny,      "direct",        256 * kKiB, store, 2 * kKiB + 1},
      {allreduce,      memory,   16 * kKiB, 128 * kKiB, "exchange",    64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {allreduce,      memory,   3 * kKiB + 512, kAny, "exchange",     64 * kKiB, none, 0, 2, 2},
      {allreduce,      anywhere, 2 * kKiB + 512, 64 * kKiB, "exchange",  64 * kKiB},
      {allreduce,      anywhere, 7 * kKiB + 512, 64 * kKiB, "exchange",  64 * kKiB, none, 0, 3},
      {allreduce,      anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      // Rounds that stay in a processor's own caches, four times that: larger ones are as slow as an algorithm in which
      // every rank reduces its block.
      {allreduce,      memory,   416 * kKiB, kAny,    "staged_leaders", 48 * kKiB, none, 224 * kKiB, 3, 5, 0, few},
      {allreduce,      memory,   704 * kKiB, kAny,    "staged_leaders", 24 * kKiB, none, 224 * kKiB, 3, 5, 0, few},
      {allreduce,      memory,   kAny,     kAny,      "staged_leaders", 16 * kKiB, none, 224 * kKiB, 3, 5, 0, few},
      {allreduce,      memory,   kAny,     kAny,      "staged_leaders", 16 * kKiB, none, 160 * kKiB, 6, INT_MAX, 0, few},
      {allreduce,      memory,   kAny,     kAny,      "staged",        128 * kKiB, none, 0, 3, 5, 0, crowded},
      {allreduce,      memory,   kAny,     kAny,      "staged",        256 * kKiB, none, kMiB + 1, 2, 2},
      {allreduce,      memory,   8 * kMiB, kAny,      "staged",        kMiB},
      {allreduce,      memory,   kAny,     kAny,      "staged",        256 * kKiB},
      {allreduce,      anywhere, 5 * kKiB + 512, 64 * kKiB, "exchange",  64 * kKiB},
      {allreduce,      network,  16 * kKiB, kAny,     "leaders",       64 * kKiB},
      {allreduce,      network,  16 * kKiB, kAny,     "tree",          64 * kKiB, none, 0, 5, INT_MAX, 0, crowded},
      {allreduce,      anywhere, 16 * kKiB, kAny,     "doubling",      64 * kKiB},
      // Between two ranks as many bytes as a ring, in one round. One packet of the loopback holds up to 60 KiB.
      {allreduce,      network,  60 * kKiB, kAny,     "doubling",      64 * kKiB, none, 0, 2, 2},
      {allreduce,      network,  160 * kKiB, kAny,    "doubling",      512 * kKiB, none, 96 * kKiB, 2, 2},
      {allreduce,      network,  kAny,     kAny,      "hierarchical",  128 * kKiB, none, 0, 2, INT_MAX, 0, nested},
      // Of a ring all bytes go from processor to processor, of these a third and less: the same ones, in fewer messages
      // or more at once.
      {allreduce,      network,  256 * kKiB, kAny,    "leaders",       256 * kKiB, none, 0, 3, 4, 0, crowded},
      {allreduce,      network,  kAny,     kAny,      "hierarchical",  256 * kKiB, none, 0, 4, 4, 0, few},
      {allreduce,      network,  64 * kMiB, kAny,     "leaders",       256 * kKiB, none, 0, 5, INT_MAX, 0, few},
      {allreduce,      network,  128 * kKiB, kAny,    "doubling",      64 * kKiB, none, 0, 3, 4, 0, crowded},
      {allreduce,      network,  128 * kKiB, kAny,    "tree",          64 * kKiB, none, 0, 5, INT_MAX, 0, crowded},
      {allreduce,      network,  512 * kKiB, kAny,    "pairwise",      128 * kKiB, none, 0, 3, 4, 0, crowded},
      {allreduce,      network,  256 * kKiB, kAny,    "pairwise",      128 * kKiB, none, 0, 5, INT_MAX, 0, crowded},
      // A ring's bytes in fewer hops. Larger chunks are bursts between pauses, by which bbr takes a link for a slow
      // one.
      {allreduce,      network,  512 * kKiB, kAny,    "halving",       32 * kKiB, none, 0, 3},
      {allreduce,      memory,   kAny,     kAny,      "ring",          64 * kKiB},
      // Of two ranks nobody forwards, and what comes is combined as it comes: chunks only cost system calls.
      {allreduce,      network,  kAny,     kAny,      "ring",          512 * kKiB, none, 0, 2, 2},
      {allreduce,      network,  kAny,     kAny,      "pairwise",      512 * kKiB, none, 0, 2, 2},
      {allreduce,      network,  16 * kMiB, kAny,     "ring",          128 * kKiB},
      {allreduce,      network,  kAny,     kAny,      "ring",          256 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      // Seldom short of something to send, or bbr takes the link for a slow one.
      {allreduce,      network,  kAny,     kAny,      "ring",          kMiB},
      {allreduce,      memory,   kAny,     kAny,      "pairwise",      64 * kKiB},
      {allreduce,      network,  kAny,     kAny,      "pairwise",      128 * kKiB},

      {broadcast,      anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      // To announce buffers is to barrier: who sends or receives by messages need not wait for the others.
      // But up to what a line of the board holds, who needs nobody's goes far ahead of the others.
      {broadcast,      memory,   48,       kAny,      "exchange",      64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {broadcast,      memory,   32 * kKiB, kAny,     "tree",          64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      // A ring takes more of who is ahead than the board has places for, and more than peers' memory, for which both
      // wait for each other.
      {broadcast,      shared,   48,       kAny,      "exchange",      64 * kKiB, none, 0, 2, 2},
      {broadcast,      shared,   4 * kKiB, kAny,      "tree",          64 * kKiB, none, 0, 2, 2},
      {broadcast,      memory,   2 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {broadcast,      memory,   3 * kKiB + 512, 64 * kKiB, "exchange",  64 * kKiB, none, 0, 2, 2},
      {broadcast,      memory,   kAny,     kAny,      "direct",        256 * kKiB, store, 3 * kKiB + 513, 2, 2},
      {broadcast,      memory,   kAny,     kAny,      "direct",        256 * kKiB, store, 16 * kKiB + 1},
      {broadcast,      memory,   64 * kKiB, kAny,     "tree",          64 * kKiB, none, 0, 3, 3, 0, crowded},
      {broadcast,      memory,   kMiB,     kAny,      "direct",        256 * kKiB, read, 48 * kKiB + 1, 2, 2},
      {broadcast,      shared,   20 * kKiB, kAny,     "tree",          64 * kKiB, none, 0, 2, 2},
      // Two copies of lines that stay in the caches, in the place of two through a ring that is larger than they are.
      {broadcast,      memory,   256 * kKiB, kAny,    "staged",        64 * kKiB, none, 0, 2, 2},
      {broadcast,      network,  kAny,     kAny,      "hierarchical",  128 * kKiB, none, 64 * kKiB},
      {broadcast,      memory,   kAny,     kAny,      "staged",        128 * kKiB, none, 256 * kKiB + 1, 2, 2},
      {broadcast,      memory,   kAny,     kAny,      "staged",        512 * kKiB, none, 32 * kKiB + 1, 3, INT_MAX, 0, crowded},
      {broadcast,      memory,   kAny,     kAny,      "staged",        512 * kKiB, none, 256 * kKiB + 1},
      {broadcast,      memory,   kAny,     kAny,      "tree",          64 * kKiB},
      {broadcast,      network,  kAny,     kAny,      "tree",          kMiB, none, 0, 2, 2},
      {broadcast,      network,  kAny,     kAny,      "tree",          256 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {broadcast,      network,  kAny,     kAny,      "tree",          128 * kKiB},

      {allgather,      anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {allgather,      memory,   4 * kKiB, kAny,      "exchange",      64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {allgather,      memory,   kAny,     kAny,      "direct",        256 * kKiB, store, kKiB + 1},
      {allgather,      memory,   kMiB,     kAny,      "direct",        256 * kKiB, read, 16 * kKiB + 1, 2, 2},
      {allgather,      memory,   kAny,     kAny,      "staged",        256 * kKiB, none, 3 * kKiB + 513, 2, 2},
      {allgather,      anywhere, 8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {allgather,      anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {allgather,      network,  kAny,     kAny,      "hierarchical",  128 * kKiB},
      {allgather,      memory,   8 * kMiB, kAny,      "direct",        256 * kKiB, read, 1536 * kKiB, 3},
      {allgather,      memory,   kAny,     kAny,      "staged",        512 * kKiB, none, 16 * kKiB, 3},
      {allgather,      memory,   kAny,     kAny,      "ring",          64 * kKiB},
      {allgather,      network,  kAny,     16 * kKiB, "leaders",       64 * kKiB, none, 0, 3, 8, 0, crowded},
      {allgather,      network,  kAny,     64 * kKiB, "leaders",       64 * kKiB, none, 0, 6, 8, 0, crowded},
      {allgather,      network,  16 * kKiB, kAny,     "doubling",      64 * kKiB, none, 0, 3},
      {allgather,      network,  kAny,     kMiB,      "doubling",      128 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {allgather,      network,  kAny,     kAny,      "ring",          512 * kKiB, none, 0, 2, 2},
      {allgather,      network,  kAny,     kAny,      "ring",          128 * kKiB},

      {reduce_scatter, anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {reduce_scatter, memory,   8 * kKiB, kAny,      "exchange",      64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {reduce_scatter, memory,   kAny,     kAny,      "direct",        4 * kMiB, store, kKiB + 1},
      {reduce_scatter, anywhere, 8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {reduce_scatter, anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {reduce_scatter, memory,   kAny,     kAny,      "staged",        512 * kKiB},
      {reduce_scatter, network,  32 * kKiB, kAny,     "leaders",       64 * kKiB, none, 0, 3, 5, 0, few},
      {reduce_scatter, network,  192 * kKiB, kAny,    "leaders",       64 * kKiB, none, 0, 6, INT_MAX, 0, few},
      {reduce_scatter, network,  kMiB,     kAny,      "halving",       128 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {reduce_scatter, anywhere, 64 * kKiB, kAny,     "pairwise",      64 * kKiB},
      {reduce_scatter, memory,   kAny,     kAny,      "ring",          64 * kKiB},
      {reduce_scatter, network,  kAny,     kAny,      "ring",          512 * kKiB, none, 0, 2, 2},
      {reduce_scatter, network,  kAny,     kAny,      "pairwise",      512 * kKiB, none, 0, 2, 2},
      {reduce_scatter, network,  kAny,     kAny,      "ring",          128 * kKiB},
      {reduce_scatter, memory,   kAny,     kAny,      "pairwise",      64 * kKiB},
      {reduce_scatter, network,  kAny,     kAny,      "pairwise",      128 * kKiB},

      {barrier,        anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {barrier,        anywhere, kAny,     kAny,      "exchange",      64 * kKiB},
      {barrier,        network,  kAny,     kAny,      "leaders",       64 * kKiB, none, 0, 3, INT_MAX, 0, bound},
      {barrier,        anywhere, kAny,     kAny,      "dissemination", 64 * kKiB},

      {reduce,         anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {reduce,         memory,   48,       kAny,      "exchange",      64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {reduce,         memory,   4 * kKiB, kAny,      "tree",          64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {reduce,         memory,   32 * kKiB, kAny,     "chain",         64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {reduce,         shared,   48,       kAny,      "exchange",      64 * kKiB, none, 0, 2, 2},
      {reduce,         shared,   4 * kKiB, kAny,      "chain",         64 * kKiB, none, 0, 2, 2},
      {reduce,         memory,   kAny,     kAny,      "direct",        256 * kKiB, store, kKiB + 1},
      {reduce,         shared,   24 * kKiB, kAny,     "chain",         64 * kKiB, none, 0, 2, 2},
      {reduce,         memory,   kMiB,     kAny,      "staged",        64 * kKiB, none, 0, 2, 2},
      {reduce,         memory,   kAny,     kAny,      "staged",        512 * kKiB, none, 32 * kKiB + 1, 3, INT_MAX, 0, crowded},
      {reduce,         memory,   kAny,     kAny,      "staged",        64 * kKiB, none, 128 * kKiB + 1, 3},
      {reduce,         anywhere, 8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {reduce,         anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {reduce,         anywhere, 64 * kKiB, kAny,     "tree",          64 * kKiB},
      {reduce,         memory,   kAny,     kAny,      "chain",         64 * kKiB},
      {reduce,         network,  2 * kMiB, kAny,      "tree",          256 * kKiB, none, 0, 3, INT_MAX, 0, few},
      {reduce,         network,  kAny,     kAny,      "chain",         kMiB, none, 0, 2, 2},
      {reduce,         network,  kAny,     kAny,      "pairwise",      kMiB, none, 0, 2, 2},
      {reduce,         network,  kAny,     kAny,      "chain",         128 * kKiB},
      {reduce,         memory,   kAny,     kAny,      "pairwise",      64 * kKiB},
      {reduce,         network,  kAny,     kAny,      "pairwise",      128 * kKiB},

      {gather,         anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {gather,         memory,   8 * kKiB, kAny,      "tree",          64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {gather,         anywhere, 8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {gather,         anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {gather,         anywhere, 8 * kKiB, kAny,      "tree",          64 * kKiB},
      {gather,         anywhere, kAny,     kAny,      "direct",        64 * kKiB},

      {scatter,        anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {scatter,        memory,   8 * kKiB, kAny,      "tree",          64 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {scatter,        anywhere, 2 * kKiB, kAny,      "exchange",      64 * kKiB},
      {scatter,        anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {scatter,        anywhere, 64 * kKiB, kAny,     "tree",          64 * kKiB},
      {scatter,        anywhere, kAny,     kAny,      "direct",        64 * kKiB},

      {alltoall,       anywhere, kAny,     kAny,      "alone",         256 * kKiB},
      {alltoall,       memory,   8 * kKiB, kAny,      "exchange",      256 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {alltoall,       memory,   kAny,     kAny,      "direct",        kMiB, store, kKiB + 1},
      {alltoall,       memory,   16 * kKiB, kAny,     "exchange",      256 * kKiB, none, 0, 3, INT_MAX, 0, crowded},
      {alltoall,       memory,   32 * kMiB, kAny,     "direct",        kMiB, read, 32 * kKiB, 2, 2},
      {alltoall,       memory,   448 * kKiB, kAny,    "direct",        kMiB, read, 128 * kKiB + 1, 4, 4},
      {alltoall,       memory,   kAny,     kAny,      "direct",        kMiB, read, 768 * kKiB, 3},
      {alltoall,       memory,   kAny,     kAny,      "staged",        256 * kKiB, none, 6 * kKiB + 513, 2, 2},
      {alltoall,       anywhere, 8 * kKiB, 64 * kKiB, "exchange",      256 * kKiB},
      {alltoall,       anywhere, 0,        kAny,      "dissemination", 256 * kKiB},
      {alltoall,       memory,   kAny,     kAny,      "staged",        256 * kKiB, none, 16 * kKiB + 1},
      // Half the messages for up to twice the bytes.
      {alltoall,       network,  16 * kKiB, kAny,     "leaders",       256 * kKiB, none, 0, 3, 5, 0, few},
      {alltoall,       network,  64 * kKiB, kAny,     "leaders",       256 * kKiB, none, 0, 6, INT_MAX, 0, few},
      {alltoall,       anywhere, kAny,     kAny,      "pairwise",      256 * kKiB},

      {scan,           anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {scan,           anywhere, 8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {scan,           anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {scan,           anywhere, 16 * kKiB, kAny,     "doubling",      64 * kKiB},
      {scan,           memory,   kAny,     kAny,      "chain",         64 * kKiB},
      {scan,           network,  kAny,     kAny,      "chain",         128 * kKiB},
      {scan,           memory,   kAny,     kAny,      "pairwise",      64 * kKiB},
      {scan,           network,  kAny,     kAny,      "pairwise",      128 * kKiB},

      {exscan,         anywhere, kAny,     kAny,      "alone",         64 * kKiB},
      {exscan,         anywhere, 8 * kKiB, 64 * kKiB, "exchange",      64 * kKiB},
      {exscan,         anywhere, 0,        kAny,      "dissemination", 64 * kKiB},
      {exscan,         anywhere, 16 * kKiB, kAny,     "doubling",      64 * kKiB},
      {exscan,         memory,   kAny,     kAny,      "chain",         64 * kKiB},
      {exscan,         network,  kAny,     kAny,      "chain",         128 * kKiB},
      {exscan,         memory,   kAny,     kAny,      "pairwise",      64 * kKiB},
      {exscan,         network,  kAny,     kAny,      "pairwise",      128 * kKiB},

      {allgatherv,     anywhere, kAny,     kAny,      "direct",        64 * kKiB},
      {allgatherv,     anywhere, kAny,     kAny,      "dissemination", 64 * kKiB},
      {gatherv,        anywhere, kAny,     kAny,      "direct",        64 * kKiB},
      {scatterv,       anywhere, kAny,     kAny,      "direct",        64 * kKiB},
      {reduce_scatterv, anywhere, kAny,    kAny,      "alone",         64 * kKiB},
      {reduce_scatterv, anywhere, kAny,    kAny,      "dissemination", 64 * kKiB},
      {reduce_scatterv, memory,  kAny,     kAny,      "pairwise",      64 * kKiB},
      {reduce_scatterv, network, kAny,     kAny,      "pairwise",      128 * kKiB},
      {alltoallv,      anywhere, kAny,     kAny,      "direct",        64 * kKiB},
  };
  // clang-format on
  return table;
}

Decision decide(const Call& call, const Topology& topology, const Wish& wish) {
  Decision decision;
  std::size_t chunk_bytes = wish.chunk_bytes;
  const std::string_view wanted = call.algorithm.empty() ? wished(wish, call.collective) : call.algorithm;
  const std::string who = call.algorithm.empty() ? " was asked for" : " was asked for by the call";
  if (!wanted.empty()) {
    const Algorithm* row = find(call.collective, wanted);
    if (row != nullptr && row->fits(call, topology)) {
      decision.choice.algorithm = row;
      decision.why = text(wanted, who, ". ");
    } else if (row != nullptr) {
      const bool reach_is_all = could_reach(call, Reach::store, topology, *row);
      decision.why = text(wanted, who, ", but does not fit ",
                          reach_is_all ? "where ranks cannot reach each other's buffers. " : "this call. ");
    } else {  // a pair that names another collective's algorithm
      decision.why = text(wanted, who, ", but ", name(call.collective), " has no such algorithm. ");
    }
  }
  // Also under a wish for an algorithm the chunk is the table's for this place and size: that of a rule for it, if
  // there is one.
  std::size_t table_chunk = 0;
  bool own_rule = false;  // that chunk is of one for the algorithm
  const auto take = [&](const Rule& rule) {
    if (own_rule || !holds(rule, call, topology)) return;
    const Algorithm* row = find(call.collective, rule.algorithm);
    if (!row->fits(call, topology)) return;
    // A measured table's was found with as many ranks.
    const bool crowded = topology.oversubscribed && rule.line == 0;
    const bool decides = decision.choice.algorithm == nullptr;
    own_rule = (decides || row == decision.choice.algorithm) && rule.chunk_bytes > 0;  // 0: the library's
    if (table_chunk == 0 || own_rule) table_chunk = rule.chunk_bytes * (crowded ? kOversubscribedFactor : 1);
    if (!decides) return;
    decision.choice.algorithm = row;
    decision.rule = &rule;
    decision.why += text(name_of(rule, wish), " is the first that holds and fits: ", row->name, ", ", row->what, ". ");
    if (rule.reach != Reach::none)
      decision.why += text("It needs ranks to ", rule.reach == Reach::store ? "load and store" : "load",
                           " each other's buffers, which they can. ");
  };
  for (const std::vector<Rule>* table : {wish.tuning ? &wish.tuning->rules : nullptr, &rules()}) {
    if (table == nullptr) continue;
    for (const Rule& rule : *table) take(rule);
  }
  if (chunk_bytes == 0) chunk_bytes = table_chunk;
  decision.choice.chunk = chunk_for(call, topology, *decision.choice.algorithm, chunk_bytes);
  return decision;
}

Choice choose(const Call& call, const Topology& topology, const Wish& wish) {
  return decide(call, topology, wish).choice;
}

bool profits_from_reach(Call call, const Topology& topology, const Wish& wish) {
  for (const Reach reach : {Reach::read, Reach::store}) {
    call.reach = reach;
    if (!could_reach(call, Reach::none, topology, *choose(call, topology, wish).algorithm)) return true;
  }
  return false;
}

std::string names_that_fit(const Call& call, const Topology& topology) {
  std::string names;
  for (const Algorithm& row : catalog()) {
    if (row.collective == call.collective && row.fits(call, topology))
      names += text(names.empty() ? "" : ", ", row.name);
  }
  return names;
}

std::string why_not(const Wish& wish) {
  for (const WishItem& item : items(wish)) {
    bool collective_known = false;
    bool algorithm_known = false;
    std::string there_is;
    for (const Collective each : kCollectives) {
      if (!item.collective.empty() && item.collective != name(each)) continue;
      collective_known = true;
      algorithm_known = algorithm_known || find(each, item.algorithm) != nullptr;
      there_is += text(there_is.empty() ? "" : "; ", name(each), " has ", names_for(each));
    }
    if (!collective_known) return text("'", item.collective, "' is no collective; there are ", collective_names());
    if (!algorithm_known) return text("there is no algorithm '", item.algorithm, "': ", there_is);
  }
  return "";
}

}  // namespace anello::schedule
