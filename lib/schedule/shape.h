#pragma once
// The shape of a call on one rank: its input and result, in elements, and their places.
#include "schedule/schedule.h"

#include <cstddef>
#include <memory>

namespace anello::schedule {

// Results combine several ranks' elements.
bool reduces(Collective collective);
// Results combine the ranks up to this one.
bool is_prefix(Collective collective);
bool has_root(Collective collective);
// A vector has a part for each rank, and Call::count is the size of a part.
bool has_parts(Collective collective);

// Its parts differ in count.
bool is_varying(Collective collective);
// Only the two ranks of a pair know how many elements they exchange.
bool is_between_pairs(Collective collective);

// With the ends of its buffers, which every step of a plan is checked against.
std::shared_ptr<const Varying> measured(Varying parts);

// The elements of a rank's input: 0 if it only receives.
std::size_t input_count(const Call& call, int size, int rank);
// The largest input of any rank, as all ranks know it.
std::size_t largest_input(const Call& call, int size);
// The elements of its result: 0 if only another rank gets the result, and if scatter's root leaves its part in place.
std::size_t result_count(const Call& call, int size, int rank);

// Whether the input lies in the output: for in-place calls, on the ranks to which this applies. It does not apply to a
// scatter in place: its root's result stays in the input.
bool input_in_output(const Call& call, int rank);
// The offset of the input in the output.
std::size_t input_offset(const Call& call, int rank);
// The offset of the result in the output. It is not 0 only if the result replaces this rank's part of an input that
// lies there.
std::size_t result_offset(const Call& call, int rank);

// The place of a rank's own slice in its call: a slice of the result moves by its offset, and an input in place moves
// to the output that holds it. Do not call it with a slice that it has returned.
Slice resolve(Slice slice, const Call& call, int rank);

// Elements of the caller's buffer; 0 if the rank has none or may not access it.
std::size_t extent(Buffer buffer, const Call& call, int size, int rank);

}  // namespace anello::schedule
