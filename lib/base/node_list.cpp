#include "base/node_list.h"

#include "base/text.h"

#include <charconv>
#include <optional>

namespace anello {
namespace {

constexpr std::size_t kLongestNumber = 9;
constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostBrackets = 8;

struct Range {
  unsigned long low, high;
  std::size_t digits;
};

// The numbers of a bracket, and the text behind it.
struct Bracket {
  std::vector<Range> ranges;
  std::string_view after;
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

std::string shown(std::string_view word) {
  constexpr std::size_t kShown = 60;
  return text("'", word.substr(0, kShown), word.size() > kShown ? "..'" : "'");
}

std::string too_many(std::size_t most) { return text("the list names more than ", most, " hosts"); }

// An entry may have several brackets: "rack[1-2]node[1-8]". Returns what is wrong with it, or "".
std::string parse_brackets(std::string_view entry, std::vector<Bracket>& brackets) {
  std::size_t at = entry.find('[');
  while (at != std::string_view::npos) {
    const std::size_t close = entry.find(']', at);
    if (close == std::string_view::npos) return "a bracket is not closed";
    if (brackets.size() == kMostBrackets) return text("it has more than ", kMostBrackets, " brackets");
    std::string_view words = entry.substr(at + 1, close - at - 1);
    const std::size_t next = entry.find('[', close);
    Bracket& bracket = brackets.emplace_back();
    bracket.after = entry.substr(close + 1, next == std::string_view::npos ? next : next - close - 1);
    for (bool more = true; more;) {
      const std::size_t comma = words.find(',');
      const auto range = parse_range(words.substr(0, comma));
      if (!range) return text(shown(words.substr(0, comma)), " is no number and no range of numbers, such as 1-16");
      bracket.ranges.push_back(*range);
      more = comma != std::string_view::npos;
      if (more) words.remove_prefix(comma + 1);
    }
    at = next;
  }
  return {};
}

std::string expand(std::string_view entry, std::size_t most, std::vector<std::string>& names) {
  std::vector<Bracket> brackets;
  if (std::string wrong = parse_brackets(entry, brackets); !wrong.empty()) return wrong;
  const std::string_view first = entry.substr(0, entry.find('['));
  std::size_t count = 1, length = first.size();
  bool stray = first.find(']') != std::string_view::npos;
  for (const Bracket& bracket : brackets) {
    std::size_t numbers = 0;
    for (const Range& range : bracket.ranges) {
      numbers += range.high - range.low + 1;
      if (numbers > most) return too_many(most);
    }
    count *= numbers;
    if (count > most) return too_many(most);
    length += kLongestNumber + bracket.after.size();
    stray = stray || bracket.after.find(']') != std::string_view::npos;
  }
  if (stray) return "a bracket is closed that is not open";
  if (entry.empty()) return "a name is missing";
  if (length > kLongestName) return text("a name is longer than ", kLongestName, " characters");
  if (count > most - names.size()) return too_many(most);
  std::vector<std::string> so_far{std::string(first)};
  for (const Bracket& bracket : brackets) {
    std::vector<std::string> longer;
    for (const std::string& name : so_far) {
      for (const Range& range : bracket.ranges) {
        for (unsigned long number = range.low; number <= range.high; ++number)
          longer.push_back(name + padded(number, range.digits) + std::string(bracket.after));
      }
    }
    so_far = std::move(longer);
  }
  names.insert(names.end(), so_far.begin(), so_far.end());
  return {};
}

}  // namespace

NodeList expand_node_list(std::string_view list, std::size_t most) {
  NodeList result;
  while (true) {
    // A comma within brackets does not end an entry.
    std::size_t end = 0;
    for (bool inside = false; end < list.size() && (inside || list[end] != ','); ++end)
      inside = list[end] == '[' || (inside && list[end] != ']');
    const std::string wrong = expand(list.substr(0, end), most, result.names);
    if (!wrong.empty()) return {{}, text(shown(list.substr(0, end)), ": ", wrong)};
    if (end == list.size()) return result;
    list.remove_prefix(end + 1);
  }
}

}  // namespace anello
