#pragma once
// The effect of a call's steps on symbols, and the rules that they must not break.
#include "schedule/schedule.h"
#include "schedule/symbol.h"

#include <string>
#include <vector>

namespace anello::schedule {

class Arithmetic {
 public:
  Arithmetic(const Call& call, int size) : call_(call), size_(size) {}

  // Returns the value for `into`. other is the element that arrived (recv_reduce) or that is already in `into`
  // (reduce). For a reduction, from has all ranks' elements, one rank after the other. problem gets the rule that the
  // step breaks, if it breaks one.
  std::vector<Symbol> result(const Step& step, std::vector<Symbol> from, const std::vector<Symbol>& other,
                             std::string& problem) const;

 private:
  std::vector<Symbol> combined(const Step& step, const std::vector<Symbol>& left, const std::vector<Symbol>& right,
                               std::string& problem) const;
  std::vector<Symbol> reduced(const Step& step, const std::vector<Symbol>& all, std::string& problem) const;
  void finish(std::vector<Symbol>& elements, std::string& problem) const;

  Call call_;
  int size_;
};

}  // namespace anello::schedule
