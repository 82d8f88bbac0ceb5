#include "base/node_list.h"

#include <charconv>

namespace anello {
namespace {

constexpr std::size_t kLongestNumber = 9;

struct Range {
  unsigned long low, high;
  std::size_t digits;
};

// "01-03" or "7"
std::optional<Range> parse_range(std::string_view word) {
  const auto number = [](std::string_view digits) -> std::optional<unsigned long> {
    unsigned long value = 0;
    const auto [stop, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || digits.size() > kLongestNumber || wrong != std::errc{} ||
        stop != digits.data() + digits.size())
      return std::nullopt;
    return value;
  };
  const std::size_t dash = word.find('-');
  const auto low = number(word.substr(0, dash));
  const auto high = dash == std::string_view::npos ? low : number(word.substr(dash + 1));
  if (!low || !high || *low > *high) return std::nullopt;
  return Range{*low, *high, word.substr(0, dash).size()};
}

std::string padded(unsigned long number, std::size_t digits) {
  std::string text = std::to_string(number);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

// Every name that entry stands for, behind prefix. An entry may have several brackets: "rack[1-2]node[1-8]".
bool expand(const std::string& prefix, std::string_view entry, std::size_t most, std::vector<std::string>& names) {
  const std::size_t open = entry.find('[');
  if (open == std::string_view::npos) {
    if (entry.find(']') != std::string_view::npos || prefix.size() + entry.size() == 0 || names.size() >= most)
      return false;
    names.push_back(prefix + std::string(entry));
    return true;
  }
  const std::size_t close = entry.find(']', open);
  if (close == std::string_view::npos || close == open + 1) return false;
  std::string_view ranges = entry.substr(open + 1, close - open - 1);
  const std::string before = prefix + std::string(entry.substr(0, open));
  while (!ranges.empty()) {
    const std::size_t comma = ranges.find(',');
    const auto range = parse_range(ranges.substr(0, comma));
    if (!range) return false;
    for (unsigned long number = range->low; number <= range->high; ++number) {
      if (!expand(before + padded(number, range->digits), entry.substr(close + 1), most, names)) return false;
    }
    if (comma == std::string_view::npos) return true;
    ranges.remove_prefix(comma + 1);
  }
  return false;  // it ends with a comma
}

}  // namespace

std::optional<std::vector<std::string>> expand_node_list(std::string_view list, std::size_t most) {
  std::vector<std::string> names;
  while (true) {
    // A comma within brackets does not end an entry.
    std::size_t end = 0;
    for (bool inside = false; end < list.size() && (inside || list[end] != ','); ++end)
      inside = list[end] == '[' || (inside && list[end] != ']');
    if (end == 0 || !expand("", list.substr(0, end), most, names)) return std::nullopt;
    if (end == list.size()) return names;
    list.remove_prefix(end + 1);
  }
}

}  // namespace anello
