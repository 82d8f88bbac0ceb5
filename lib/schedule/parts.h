#pragma once
// Makes each rank's call of a form whose parts differ in count, from one count for each rank.
#include "schedule/schedule.h"

#include <cstddef>
#include <vector>

namespace anello::schedule {

// By rank: in an allgatherv or gatherv, what the rank gives; in a scatterv or reduce_scatterv, what it gets; in an
// alltoallv, what it sends to each rank.
using Counts = std::vector<std::size_t>;

// The call as that rank makes it, with its parts one after the other in the order of ranks. counts has one for each
// rank, or is empty: then the call has no parts and stays as it is.
Call call_of(const Call& call, const Counts& counts, int rank);

// By rank; only one if the call has no parts, since all ranks make the same.
std::vector<Call> calls_of(const Call& call, const Counts& counts);

// The sum over all ranks, of those forms for which all ranks know all counts; else 0, as Call::count has it.
std::size_t known_total(Collective collective, const Counts& counts);

}  // namespace anello::schedule
