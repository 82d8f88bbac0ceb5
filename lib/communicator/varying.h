#pragma once
#include "schedule/schedule.h"

#include <anello/anello.h>

#include <cstdint>
#include <memory>

namespace anello {

// This rank's view of the parts of a checked call whose kind has counts; reads its arrays.
std::shared_ptr<const schedule::Varying> varying_of(const anello_call_t& call, int rank, int size, bool in_place);

// Elements of all parts, and a digest of the counts: of the kinds that have them alike on all ranks (allgatherv,
// reduce_scatter); 0 for others.
std::size_t counts_total(const anello_call_t& call, int size);
std::uint32_t counts_digest(const anello_call_t& call, int size);

}  // namespace anello
