#include "schedule/arithmetic.h"

#include "schedule/shape.h"

namespace anello::schedule {

std::vector<Symbol> Arithmetic::result(const Step& step, std::vector<Symbol> from, const std::vector<Symbol>& other,
                                       std::string& problem) const {
  switch (step.kind) {
    case Kind::reduce:
    case Kind::recv_reduce: {
      const bool from_is_left = (step.kind == Kind::reduce) == step.reversed;
      return from_is_left ? combined(step, from, other, problem) : combined(step, other, from, problem);
    }
    case Kind::reduce_ranks:
    case Kind::reduce_staged: return reduced(step, from, problem);
    case Kind::finish: finish(from, problem); break;
    default:
      if (step.from.buffer == Buffer::accumulator && step.into.buffer != Buffer::accumulator)
        problem = "takes an accumulator without finishing it";
  }
  return from;
}

std::vector<Symbol> Arithmetic::combined(const Step& step, const std::vector<Symbol>& left,
                                         const std::vector<Symbol>& right, std::string& problem) const {
  std::vector<Symbol> result(left.size());
  const bool rounds = call_.accumulate && step.into.buffer != Buffer::accumulator;
  for (std::size_t i = 0; i < left.size(); ++i) {
    result[i] = combine(left[i], right[i]);
    if (left[i].finished || right[i].finished) problem = "reduces what was finished";
    if (rounds && size_ > 2) problem = "rounds a partial result";
  }
  return result;
}

// No partial result is rounded.
std::vector<Symbol> Arithmetic::reduced(const Step& step, const std::vector<Symbol>& all, std::string& problem) const {
  const std::size_t count = step.into.count;
  std::vector<Symbol> result(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].finished) problem = "reduces what was finished";
    if (i >= count) result[i % count] = combine(result[i % count], all[i]);
  }
  if (step.among && call_.accumulate && size_ > 2) problem = "rounds a partial result";
  if (call_.finish && !step.among)
    for (Symbol& element : result) element = finished(element);
  return result;
}

void Arithmetic::finish(std::vector<Symbol>& elements, std::string& problem) const {
  for (Symbol& element : elements) {
    if (element.inputs != static_cast<std::uint32_t>(size_) && !is_prefix(call_.collective))
      problem = "finishes a partial result";
    if (element.finished) problem = "finishes twice";
    if (call_.finish) element = finished(element);
  }
}

}  // namespace anello::schedule
