#include "perf/measurement.h"

#include "perf/failure.h"
#include "perf/pattern.h"
#include "perf/statistics.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace perf {
namespace {

constexpr int kBatches = 10;
constexpr unsigned char kPoison = 0x5c;

double microseconds() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

int rank_of(anello_comm_t comm) {
  int rank = 0;
  check(anello_comm_rank(comm, &rank), "anello_comm_rank", comm);
  return rank;
}

int size_of(anello_comm_t comm) {
  int size = 1;
  check(anello_comm_size(comm, &size), "anello_comm_size", comm);
  return size;
}

// In place, reduce_scatter takes all of its input from the receive buffer.
std::size_t receive_room(const Case& of, int ranks) {
  return std::max(receive_count(of, ranks), of.collective == Collective::reduce_scatter ? send_count(of, ranks) : 0);
}

}  // namespace

Measurement::Measurement(const Options& options, anello_comm_t comm)
    : options_(options),
      comm_(comm),
      rank_(rank_of(comm)),
      ranks_(size_of(comm)),
      send_(has_out_of_place(options.collective) ? options.max_bytes : 0, options.memory, comm),
      receive_(options.max_bytes, options.memory, comm) {}

Row Measurement::measure(const Case& of) {
  Row row;
  row.of = of;
  if (has_out_of_place(of.collective)) row.out_of_place = figures(of, Place::out);
  if (has_in_place(of.collective)) row.in_place = figures(of, Place::in);
  return row;
}

Figures Measurement::figures(const Case& of, Place place) {
  prepare(of, place, 0);
  for (int i = 0; i < options_.warmup; ++i) call(of, place);
  check(anello_barrier(comm_), "anello_barrier", comm_);

  std::vector<int> calls;
  std::vector<double> times = time_calls(of, place, calls);
  // A collective is over when its slowest rank is.
  check(anello_allreduce(ANELLO_IN_PLACE, times.data(), times.size(), ANELLO_FLOAT64, ANELLO_MAX, comm_),
        "anello_allreduce", comm_);
  Figures result;
  if (options_.stats) {
    result.minimum_us = quantile(times, 0);
    result.maximum_us = quantile(times, 1);
    result.variation = variation(times);
    result.median_us = median(times);
    result.p99_us = quantile(times, 0.99);
  }
  std::vector<double> batches;
  // Single calls are combined into batches again, so that the figure means the same with and without --stats.
  const std::size_t together = (times.size() + kBatches - 1) / kBatches;
  for (std::size_t begin = 0; begin < times.size(); begin += together) {
    double time = 0;
    int count = 0;
    for (std::size_t i = begin; i < std::min(begin + together, times.size()); ++i) {
      time += times[i];
      count += calls[i];
    }
    batches.push_back(time / count);
  }
  result.time_us = median(batches);
  if (result.time_us > 0) result.algorithm_bandwidth = static_cast<double>(of.bytes) / result.time_us / 1e3;
  result.bus_bandwidth = result.algorithm_bandwidth * bus_factor(of.collective, ranks_);

  if (options_.checks > 0) {
    std::int64_t wrong = 0;
    for (int i = 1; i <= options_.checks; ++i) wrong += verify(of, place, static_cast<std::uint64_t>(i));
    check(anello_allreduce(ANELLO_IN_PLACE, &wrong, 1, ANELLO_INT64, ANELLO_SUM, comm_), "anello_allreduce", comm_);
    result.wrong = wrong;
  }
  return result;
}

void Measurement::call(const Case& of, Place place) {
  run(of, place == Place::in, send_.address(), receive_.address(), rank_, ranks_, comm_);
}

// Times are in microseconds; sizes are the numbers of calls that they cover.
std::vector<double> Measurement::time_calls(const Case& of, Place place, std::vector<int>& sizes) {
  const bool single = options_.stats || options_.dirty;
  const int batches = single ? options_.iterations : std::min(options_.iterations, kBatches);
  std::vector<double> times(static_cast<std::size_t>(batches));
  sizes.resize(times.size());
  for (int batch = 0; batch < batches; ++batch) {
    // Calls are spread evenly: iterations need not be a multiple of batches.
    const int calls = options_.iterations / batches + (batch < options_.iterations % batches ? 1 : 0);
    if (options_.dirty) {
      prepare(of, place, static_cast<std::uint64_t>(batch));
      check(anello_barrier(comm_), "anello_barrier", comm_);
    }
    const double begin = microseconds();
    for (int i = 0; i < calls; ++i) call(of, place);
    times[static_cast<std::size_t>(batch)] = microseconds() - begin;
    sizes[static_cast<std::size_t>(batch)] = calls;
  }
  return times;
}

bool Measurement::sends_apart(const Case& of, Place place) const {
  return place == Place::out || of.collective == Collective::scatter ||
         (of.collective == Collective::gather && rank_ != of.root);
}

// Puts the input where the call expects it, and elsewhere values that cannot be mistaken for results.
void Measurement::prepare(const Case& of, Place place, std::uint64_t seed) {
  const std::size_t element = anello_dtype_size(of.dtype);
  const Block block =
      reduces(of.collective) ? input(of.dtype, of.op, rank_, ranks_, seed) : moved(of.dtype, rank_, seed);
  std::memset(receive_.data(), kPoison, receive_room(of, ranks_) * element);
  unsigned char* into = receive_.data();
  if (sends_apart(of, place)) {
    into = send_.data();
  } else if (of.collective == Collective::allgather || of.collective == Collective::gather) {
    into += static_cast<std::size_t>(rank_) * of.count * element;
  }
  if (of.collective != Collective::broadcast || rank_ == of.root) fill(into, send_count(of, ranks_), element, block, 0);
  send_.put();
  receive_.put();
}

std::int64_t Measurement::verify(const Case& of, Place place, std::uint64_t seed) {
  if (of.collective == Collective::barrier) return verify_barrier();
  const std::size_t element = anello_dtype_size(of.dtype);
  prepare(of, place, seed);
  send_.guard(sends_apart(of, place) ? send_count(of, ranks_) * element : 0);
  const bool whole = place == Place::in;  // an in-place reduce_scatter may overwrite its input
  receive_.guard((whole ? receive_room(of, ranks_) : receive_count(of, ranks_)) * element);
  send_.put();
  receive_.put();
  call(of, place);
  send_.take();
  receive_.take();
  return differing(of, place, seed) + send_.damage() + receive_.damage();
}

std::int64_t Measurement::differing(const Case& of, Place place, std::uint64_t seed) const {
  const std::size_t element = anello_dtype_size(of.dtype);
  const std::size_t count = of.count;
  const unsigned char* got = receive_.data();
  switch (of.collective) {
    case Collective::allreduce: return wrong(got, count, element, reduced(of.dtype, of.op, ranks_, seed), 0);
    case Collective::broadcast: return wrong(got, count, element, moved(of.dtype, of.root, seed), 0);
    case Collective::reduce_scatter:
      return wrong(got, count, element, reduced(of.dtype, of.op, ranks_, seed),
                   static_cast<std::size_t>(rank_) * count);
    case Collective::sendrecv:
      return wrong(got, count, element, moved(of.dtype, (rank_ + ranks_ - 1) % ranks_, seed), 0);
    case Collective::allgather: return differing_parts(of, seed, 0);
    case Collective::reduce:
      return rank_ == of.root ? wrong(got, count, element, reduced(of.dtype, of.op, ranks_, seed), 0) : 0;
    case Collective::scan: return wrong(got, count, element, reduced(of.dtype, of.op, rank_ + 1, ranks_, seed), 0);
    case Collective::scatter:
      // The root's own part stays in place.
      if (place == Place::in && rank_ == of.root)
        got = send_.data() + static_cast<std::size_t>(rank_) * count * element;
      return wrong(got, count, element, moved(of.dtype, of.root, seed), static_cast<std::size_t>(rank_) * count);
    case Collective::gather: return rank_ == of.root ? differing_parts(of, seed, 0) : 0;
    case Collective::alltoall: return differing_parts(of, seed, static_cast<std::size_t>(rank_) * count);
    case Collective::barrier: break;
  }
  return 0;
}

// Expects a part from every rank, from element `first` of its input on.
std::int64_t Measurement::differing_parts(const Case& of, std::uint64_t seed, std::size_t first) const {
  const std::size_t element = anello_dtype_size(of.dtype);
  std::int64_t sum = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const unsigned char* part = receive_.data() + static_cast<std::size_t>(rank) * of.count * element;
    sum += wrong(part, of.count, element, moved(of.dtype, rank, seed), first);
  }
  return sum;
}

// No rank may leave before the last one has arrived. Ranks take turns in being late; all ranks of one host share its
// monotonic clock.
std::int64_t Measurement::verify_barrier() {
  int local = 0;
  check(anello_comm_local_size(comm_, &local), "anello_comm_local_size", comm_);
  if (local != ranks_) return 0;
  std::int64_t early = 0;
  for (int late = 0; late < ranks_; ++late) {
    check(anello_barrier(comm_), "anello_barrier", comm_);
    double came = microseconds();
    while (rank_ == late && microseconds() < came + 200) {
    }
    came = microseconds();
    check(anello_barrier(comm_), "anello_barrier", comm_);
    const double left = microseconds();
    check(anello_allreduce(ANELLO_IN_PLACE, &came, 1, ANELLO_FLOAT64, ANELLO_MAX, comm_), "anello_allreduce", comm_);
    early += left < came;
  }
  return early;
}

}  // namespace perf
