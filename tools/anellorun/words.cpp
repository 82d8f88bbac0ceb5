#include "anellorun/words.h"

#include <algorithm>
#include <set>

namespace anellorun {
namespace {

// Names that mpirun and mpiexec write with one dash, but that other parsers read as several options of one letter: -np
// is "-n p".
std::string canonical(const std::string& word) {
  static const std::set<std::string> names{"-np",          "-hosts", "-host",      "-hostfile",
                                           "-machinefile", "-wdir",  "-tag-output"};
  const auto end = std::min(word.find('='), word.size());
  std::string result = names.count(word.substr(0, end)) != 0 ? "-" + word : word;
  // torchrun's old names have underscores.
  if (word.rfind("--", 0) == 0) std::replace(result.begin(), result.begin() + static_cast<long>(end), '_', '-');
  return result;
}

// Whether the word after this one is the option's value.
bool takes_next(const CLI::App& app, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_expected_min() > 0;  // -n4 is not an option's name: it contains its value
}

// "3" or "0:1,1:3", which torchrun writes after --tee to choose streams. All of them are chosen here.
bool chooses_streams(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789:,") == std::string::npos;
}

// --help and --version ask nothing of a job: behind a colon they are a program's own.
bool begins_program(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word[1] == 'n' && word.size() > 2 && word.find_first_not_of("0123456789", 2) == std::string::npos) return true;
  const CLI::Option* option = app.get_option_no_throw(canonical(word.substr(0, word.find('='))));
  return option != nullptr && option != app.get_help_ptr() && option != app.get_version_ptr();
}

}  // namespace

CommandLine split_words(const CLI::App& app, const std::vector<std::string>& words) {
  CommandLine line;
  std::vector<std::string>& options = line.reversed_options;
  std::size_t i = 0;
  while (i < words.size()) {
    const std::string word = canonical(words[i]);
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    ++i;
    if (word == "--tee" || word.rfind("--tee=", 0) == 0) {
      options.push_back("--tee");
      if (word == "--tee" && i < words.size() && chooses_streams(words[i])) ++i;
      continue;
    }
    options.push_back(word);
    if (takes_next(app, word) && i < words.size()) options.push_back(words[i++]);
  }
  std::reverse(options.begin(), options.end());
  line.program.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return line;
}

std::vector<std::vector<std::string>> split_programs(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::vector<std::string>> programs(1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == ":" && !programs.back().empty() && i + 1 < words.size() && begins_program(app, words[i + 1])) {
      programs.emplace_back();
    } else {
      programs.back().push_back(words[i]);
    }
  }
  return programs;
}

std::string option_of_job(const CLI::App& of_job, const CLI::App& of_program, const std::vector<std::string>& options) {
  for (const std::string& word : options) {
    const std::string name = word.substr(0, word.find('='));
    if (word[0] == '-' && of_program.get_option_no_throw(name) == nullptr &&
        of_job.get_option_no_throw(name) != nullptr)
      return name;
  }
  return "";
}

}  // namespace anellorun
