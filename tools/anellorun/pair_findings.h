#pragma once
// Which hosts reach which others, in words.
#include "anellorun/probe.h"
#include "shared/findings.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace anellorun {

class PairFindings {
 public:
  // The host called from has tried the places of the host called to.
  void tried(const std::string& from, const std::string& to, std::vector<MeetingPlace> places,
             std::vector<Reach> reached);
  // A line for each host that reaches others, for each pair of which one does not reach the other, and for each clock.
  std::vector<shared::Finding> findings() const;

 private:
  struct Trial {
    std::string from, to;
    std::vector<MeetingPlace> places;
    std::vector<Reach> reached;

    // The number of the place that is used, or the one of which to speak if none is reached.
    std::size_t best() const;
    bool works() const;
  };

  std::vector<shared::Finding> reaching() const;
  std::vector<shared::Finding> clocks() const;
  shared::Finding blocked(const Trial& trial) const;
  const Trial* find(const std::string& from, const std::string& to) const;

  std::vector<std::string> hosts_;  // in order of their first appearance
  std::map<std::pair<std::string, std::string>, Trial> trials_;
};

}  // namespace anellorun
