#pragma once
// What the steps of a call make of symbols, and what they must not do to them.
#include "schedule/schedule.h"
#include "schedule/symbol.h"

#include <string>
#include <vector>

namespace anello::schedule {

class Arithmetic {
 public:
  Arithmetic(const Call& call, int size) : call_(call), size_(size) {}

  // What goes into `into`. other: what arrived (recv_reduce) or is in `into` already (reduce). Of a reduction, from has
  // all ranks' elements, one rank's after the other's. problem: what is wrong with it, if something is.
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
