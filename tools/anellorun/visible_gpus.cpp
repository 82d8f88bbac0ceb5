#include "anellorun/visible_gpus.h"

#include <algorithm>
#include <charconv>

namespace anellorun {
namespace {

bool names_a_gpu(std::string_view entry, int gpus) {
  for (const std::string_view uuid : {"GPU-", "MIG-"}) {
    if (entry.size() > uuid.size() && entry.substr(0, uuid.size()) == uuid) return true;
  }
  int index = -1;
  const auto [stop, wrong] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  return wrong == std::errc{} && stop == entry.data() + entry.size() && index >= 0 && index < gpus;
}

}  // namespace

int visible_gpus(std::string_view list, int gpus) {
  int count = 0;
  for (bool more = true; more;) {
    const auto comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    if (!names_a_gpu(entry, gpus)) break;
    ++count;
    more = comma < list.size();
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return std::min(count, gpus);
}

}  // namespace anellorun
