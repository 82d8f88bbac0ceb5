#pragma once
#include "schedule/schedule.h"

#include <anello/anello.h>

#include <cstdint>
#include <memory>

namespace anello {

// This rank's view of the parts of a checked call whose kind has counts. It reads the call's arrays.
std::shared_ptr<const schedule::Varying> varying_of(const anello_call_t& call, int rank, int size, bool in_place);

// The elements of all parts, and a digest of the counts, for the kinds whose counts are equal on all ranks (allgatherv,
// reduce_scatter); 0 for others.
std::size_t counts_total(const anello_call_t& call, int size);
std::uint32_t counts_digest(const anello_call_t& call, int size);

}  // namespace anello
