#pragma once
// The common option parsing of the programs, with CLI11: checks whose texts give the wrong value and the allowed ones,
// and one way to report all mistakes. CLI11's own checks show its internals ("{core->1,none->0}").
#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace shared {

inline constexpr int kExitUsage = 2;

inline std::string in_quotes(const std::string& word) { return "'" + word + "'"; }

// Checks that the input is one of the words, and replaces it by its value.
template <class Value>
CLI::Validator one_of(const std::map<std::string, Value>& values) {
  std::string words;
  for (const auto& [word, value] : values) words += (words.empty() ? "" : ", ") + word;
  return CLI::Validator(
      [values, words](std::string& input) {
    const auto found = values.find(input);
    if (found == values.end()) return in_quotes(input) + " is not one of " + words;
    input = CLI::detail::value_string(found->second);
    return std::string();
      },
      "");
}

inline CLI::Validator one_of(const std::vector<std::string>& words) {
  std::map<std::string, std::string> values;
  for (const std::string& word : words) values.emplace(word, word);
  return one_of(values);
}

namespace detail {

// Parses the whole word as a decimal number; infinity and "not a number" are refused.
inline bool parsed(const std::string& word, double* number) {
  if (word.find_first_not_of("0123456789+-.eE") != std::string::npos) return false;
  char* end = nullptr;
  *number = std::strtod(word.c_str(), &end);
  return !word.empty() && end == word.c_str() + word.size() && std::isfinite(*number);
}

template <class Number>
std::string shown(Number number) {
  std::ostringstream out;
  out << std::setprecision(12) << number;
  return out.str();
}

inline bool is_whole(const std::string& word) {
  const std::size_t sign = !word.empty() && word[0] == '-' ? 1 : 0;
  return word.size() > sign && word.find_first_not_of("0123456789", sign) == std::string::npos;
}

}  // namespace detail

// A whole number, both ends included. They must be exact as double.
inline CLI::Validator whole(long long from, long long to) {
  return CLI::Validator(
      [from, to](std::string& input) {
    double number = 0;
    const bool whole = detail::is_whole(input) && detail::parsed(input, &number);
    if (whole && number >= double(from) && number <= double(to)) return std::string();
    return in_quotes(input) + " is not a whole number from " + std::to_string(from) + " to " + std::to_string(to);
      },
      "");
}

inline CLI::Validator number(double from, double to) {
  return CLI::Validator(
      [from, to](std::string& input) {
    double number = 0;
    if (detail::parsed(input, &number) && number >= from && number <= to) return std::string();
    return in_quotes(input) + " is not a number from " + detail::shown(from) + " to " + detail::shown(to);
      },
      "");
}

// A size in bytes, such as 8, 64K, 32M or 1.5G, which replaces the word. Up to 2^50, so that the product with the
// number of ranks still fits.
inline CLI::Validator size() {
  return CLI::Validator(
      [](std::string& input) {
    static const std::map<std::string, double> units{{"", 1},        {"B", 1},       {"K", 1 << 10},
                                                     {"M", 1 << 20}, {"G", 1 << 30}, {"T", std::pow(2.0, 40)}};
    std::string unit = input.substr(std::min(input.find_first_not_of("0123456789."), input.size()));
    double value = 0;
    const bool is_number = detail::parsed(input.substr(0, input.size() - unit.size()), &value);
    for (char& letter : unit) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    const auto found = units.find(unit);
    if (!is_number || found == units.end() || value * found->second > std::pow(2.0, 50))
      return in_quotes(input) + " is not a size of at most 1024T; write 8, 64K, 32M or 1G";
    input = std::to_string(static_cast<unsigned long long>(value * found->second));
    return std::string();
      },
      "");
}

// A file that can be read. It may be a pipe.
inline CLI::Validator readable_file() {
  return CLI::Validator(
      [](std::string& input) {
    const auto found = CLI::detail::check_path(input.c_str());
    if (found == CLI::detail::path_type::directory) return in_quotes(input) + " is a folder, not a file";
    return found == CLI::detail::path_type::nonexistent ? "there is no file " + in_quotes(input) : std::string();
      },
      "");
}

// A file that can be read, or a folder.
inline CLI::Validator readable() {
  return CLI::Validator(
      [](std::string& input) {
    const auto found = CLI::detail::check_path(input.c_str());
    return found == CLI::detail::path_type::nonexistent ? "there is no file or folder " + in_quotes(input)
                                                        : std::string();
      },
      "");
}

// After a ParseError: prints the requested help, or the mistake. Returns the exit code.
inline int end(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error, std::cout, std::cerr);
  std::string what = error.what();
  if (what.rfind(": ", 0) == 0) what.erase(0, 2);  // for an option that --help does not show
  // "--np: 1 required N missing"
  const auto at = what.find(": 1 required ");
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && at != std::string::npos)
    what = what.substr(0, at) + " needs a value";
  std::cerr << app.get_name() << ": " << what << "\nRun it with --help for what it takes.\n";
  return kExitUsage;
}

}  // namespace shared
