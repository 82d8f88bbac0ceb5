#include "schedule/tuning.h"

#include "base/error.h"
#include "base/text.h"
#include "schedule/shape.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace anello::schedule {
namespace {

constexpr std::string_view kFirstLine = "anello-tuning 1";
constexpr std::string_view kMachine = "machine ";

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  line = line.substr(0, line.find('#'));
  for (std::size_t at = line.find_first_not_of(" \t\r"); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    found.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(" \t\r", end);
  }
  return found;
}

// Reads one line's fields in turn and reports errors.
class Fields {
 public:
  explicit Fields(std::vector<std::string_view> words) : words_(std::move(words)) {}

  std::string_view next() { return words_[at_++]; }
  template <class... Parts>
  [[noreturn]] static void wrong(const Parts&... parts) {
    throw Error(ANELLO_ERR_ARGUMENT, text(parts...));
  }
  template <class Number>
  static Number number(std::string_view word, Number any, const char* what) {
    if (word == "any") return any;
    Number value{};
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || stop != word.data() + word.size() || value < 0)
      wrong("'", word, "' is no ", what, "; that is a whole number, or any");
    return value;
  }

 private:
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
};

Collective collective_of(std::string_view word) {
  std::string names;
  for (const Collective each : kCollectives) {
    if (word == name(each)) return each;
    names += text(names.empty() ? "" : ", ", name(each));
  }
  Fields::wrong("'", word, "' is no collective; there are ", names);
}

Rule rule_of(std::string_view line) {
  constexpr std::size_t kFields = 8;
  std::vector<std::string_view> found = words(line);
  if (found.size() != kFields)
    Fields::wrong("it has ", found.size(), " fields in place of ", kFields,
                  ": collective, where, reach, ranks, from, up-to, algorithm, chunk");
  Fields fields(std::move(found));
  Rule rule;
  const Collective collective = collective_of(fields.next());
  rule.collectives = collective;
  const std::string_view place = fields.next();
  const auto* const where = std::find(std::begin(kWheres), std::end(kWheres), place);
  if (where == std::end(kWheres)) Fields::wrong("'", place, "' is not one of anywhere, memory, shared, network");
  rule.where = static_cast<Where>(where - kWheres);
  const std::string_view reach = fields.next();
  bool known = false;
  for (int each = 0; each < kReaches; ++each) {
    if (reach != name(static_cast<Reach>(each))) continue;
    rule.reach = static_cast<Reach>(each);
    known = true;
  }
  if (!known) Fields::wrong("'", reach, "' is not one of none, read, store");
  const std::string_view ranks = fields.next();
  const std::size_t dash = std::min(ranks.find('-'), ranks.size());
  rule.from_ranks = Fields::number(ranks.substr(0, dash), 1, "number of ranks");
  rule.up_to_ranks = Fields::number(dash == ranks.size() ? ranks : ranks.substr(dash + 1), INT_MAX, "number of ranks");
  rule.from_bytes = Fields::number(fields.next(), std::size_t{0}, "number of bytes");
  rule.up_to_bytes = Fields::number(fields.next(), SIZE_MAX, "number of bytes");
  if (rule.from_bytes > rule.up_to_bytes || rule.from_ranks > rule.up_to_ranks)
    Fields::wrong("no call is from ", rule.from_bytes, " to ", rule.up_to_bytes, " bytes on ", rule.from_ranks, " to ",
                  rule.up_to_ranks, " ranks: the lower number comes first");
  const std::string_view algorithm = fields.next();
  const Algorithm* const row = find(collective, algorithm);
  if (row == nullptr) {
    std::string names;
    for (const Algorithm& each : catalog())
      if (each.collective == collective) names += text(names.empty() ? "" : ", ", each.name);
    Fields::wrong(name(collective), " has no algorithm '", algorithm, "'; it has ", names);
  }
  rule.algorithm = row->name;
  const std::string_view chunk = fields.next();
  rule.chunk_bytes = chunk == "auto" ? 0 : Fields::number(chunk, std::size_t{0}, "number of bytes (or auto)");
  return rule;
}

std::string padded(std::string word, std::size_t width) {
  word.append(word.size() < width ? width - word.size() : 1, ' ');
  return word;
}

}  // namespace

Tuning parse_tuning(std::string_view text_in, std::string from) {
  Tuning tuning;
  tuning.from = std::move(from);
  if (text_in.size() > kMostTuningBytes)
    throw Error(ANELLO_ERR_ARGUMENT,
                text(tuning.from, " has ", text_in.size(), " bytes; at most ", kMostTuningBytes, " are read"));
  int number = 0;
  for (std::string_view rest = text_in; !rest.empty() || number < 2;) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    try {
      if (number == 1) {
        if (line != kFirstLine) Fields::wrong("it must be '", kFirstLine, "'; anello-tune writes such tables");
      } else if (number == 2) {
        if (line.substr(0, kMachine.size()) != kMachine) Fields::wrong("it must name the machine: 'machine ..'");
        tuning.machine = line.substr(kMachine.size());
      } else if (!words(line).empty()) {
        tuning.rules.push_back(rule_of(line));
        tuning.rules.back().line = number;
      }
    } catch (const Error& error) {
      throw Error(error.code(), text(tuning.from, ", line ", number, ": ", error.text()));
    }
  }
  return tuning;
}

std::string print(const Rule& rule) {
  const auto bytes = [](std::size_t value) { return value == SIZE_MAX ? std::string("any") : text(value); };
  const std::string upper = rule.up_to_ranks == INT_MAX ? "any" : text(rule.up_to_ranks);
  const std::string ranks = rule.from_ranks == rule.up_to_ranks ? upper : text(rule.from_ranks, "-", upper);
  std::string lines;
  for (const Collective each : kCollectives) {
    if (!rule.collectives.has(each)) continue;
    lines += text(lines.empty() ? "" : "\n", padded(name(each), 15), padded(std::string(name(rule.where)), 9),
                  padded(name(rule.reach), 6), padded(ranks, 7), padded(text(rule.from_bytes), 10),
                  padded(bytes(rule.up_to_bytes), 10), padded(std::string(rule.algorithm), 14),
                  rule.chunk_bytes == 0 ? "auto" : text(rule.chunk_bytes));
  }
  return lines;
}

std::string print(const Tuning& tuning) {
  std::string lines = text(kFirstLine, "\n", kMachine, tuning.machine, "\n");
  lines += "# collective   where    reach  ranks  from      up-to     algorithm     chunk\n";
  for (const Rule& rule : tuning.rules) lines += print(rule) + "\n";
  return lines;
}

}  // namespace anello::schedule
