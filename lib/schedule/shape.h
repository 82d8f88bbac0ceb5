#pragma once
// What a call is made of on one rank: what it hands in and gets back, in elements, and where that lies.
#include "schedule/schedule.h"

#include <cstddef>

namespace anello::schedule {

// Results are formed of several ranks' elements.
bool reduces(Collective collective);
// Results are those of the ranks up to this one.
bool is_prefix(Collective collective);
bool has_root(Collective collective);
// A vector has a part for each rank, whose elements Call::count counts.
bool has_parts(Collective collective);

// Its parts differ in count.
bool is_varying(Collective collective);
// Only the two ranks of a pair know how much goes between them.
bool is_between_pairs(Collective collective);

// What a rank hands in: 0 where it only receives.
std::size_t input_count(const Call& call, int size, int rank);
// The most that a rank hands in, as all ranks know it.
std::size_t largest_input(const Call& call, int size);
// What it gets back: 0 where another rank does, and where scatter's root finds its part where it is.
std::size_t result_count(const Call& call, int size, int rank);

// Whether the input lies in the output: of the call in place, on the ranks for which that means anything. A scatter in
// place is none of these: its root's result stays in the input.
bool input_in_output(const Call& call, int rank);
// Where it lies there.
std::size_t input_offset(const Call& call, int rank);
// Where the result begins in the output: behind 0 only where it replaces this rank's part of an input that lies there.
std::size_t result_offset(const Call& call, int rank);

// Where a rank's own slice lies for its call: a slice of the result behind its offset, and an input in place in the
// output that holds it. Not to be asked of a slice that it has returned.
Slice resolve(Slice slice, const Call& call, int rank);

// Elements of the caller's buffer; 0 where the rank has none of its own or may not touch it.
std::size_t extent(Buffer buffer, const Call& call, int size, int rank);

}  // namespace anello::schedule
