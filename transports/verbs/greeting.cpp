#include "transports/verbs/greeting.h"

#include <algorithm>

namespace anello::transport {

bool RailOffer::is_right() const {
  return pair.number > 0 && pair.is_right() && memory.is_right() && PortAddress::from(port.bytes()).has_value();
}

bool VerbsGreeting::is_right() const {
  return magic == kMagic && ring_slots == kSlots && ports >= 1 && ports <= kMostRails &&
         std::all_of(offers.begin(), offers.begin() + ports, [](const RailOffer& each) { return each.is_right(); });
}

std::vector<int> match_ports(const std::vector<PortAddress>& mine, const std::vector<PortAddress>& theirs) {
  std::vector<int> partners(mine.size(), -1);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    auto before = std::count_if(mine.begin(), mine.begin() + std::ptrdiff_t(i),
                                [&](const PortAddress& each) { return each.joins(mine[i]); });
    for (std::size_t k = 0; k < theirs.size() && partners[i] < 0; ++k) {
      if (theirs[k].joins(mine[i]) && before-- == 0) partners[i] = int(k);
    }
  }
  return partners;
}

}  // namespace anello::transport
