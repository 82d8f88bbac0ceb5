#include "communicator.h"

namespace fashion {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void Communicator::check(const char* what, anello_result_t result) const {
  if (result == ANELLO_OK) return;
  const std::string said = anello_last_error(comm_);
  throw std::runtime_error(std::string(what) + ": " + anello_result_name(result) + ": " +
                           (said.empty() ? anello_last_error(ANELLO_COMM_NULL) : said));
}

template <class Call>
void Communicator::timed(const char* what, Call call) {
  const Clock::time_point start = Clock::now();
  const anello_result_t result = call();
  seconds_inside_ += std::chrono::duration<double>(Clock::now() - start).count();
  check(what, result);
}

Communicator::Communicator() {
  check("joining the other ranks", anello_comm_create(nullptr, &comm_));
  check("asking for the rank", anello_comm_rank(comm_, &rank_));
  check("asking for the size", anello_comm_size(comm_, &size_));
}

Communicator::~Communicator() {
  // A failure of an earlier call is returned here again; it has already been reported.
  (void)anello_comm_destroy(comm_);
}

std::string Communicator::transport() const {
  const char* name = "";
  check("asking for the transport", anello_comm_transport(comm_, (rank_ + 1) % size_, &name));
  return name;
}

void Communicator::broadcast(float* values, std::size_t count) {
  timed("broadcast", [&] { return anello_broadcast(values, count, ANELLO_FLOAT32, 0, comm_); });
}

void Communicator::average(float* values, std::size_t count) {
  timed("averaging gradients",
        [&] { return anello_allreduce(ANELLO_IN_PLACE, values, count, ANELLO_FLOAT32, ANELLO_AVG, comm_); });
}

void Communicator::sum(double* values, std::size_t count) {
  timed("summing losses",
        [&] { return anello_allreduce(ANELLO_IN_PLACE, values, count, ANELLO_FLOAT64, ANELLO_SUM, comm_); });
}

void Communicator::sum(std::int64_t* values, std::size_t count) {
  timed("summing counts",
        [&] { return anello_allreduce(ANELLO_IN_PLACE, values, count, ANELLO_INT64, ANELLO_SUM, comm_); });
}

std::vector<std::int64_t> Communicator::gather(std::int64_t value) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size_));
  timed("comparing parameters", [&] { return anello_allgather(&value, all.data(), 1, ANELLO_INT64, comm_); });
  return all;
}

}  // namespace fashion
