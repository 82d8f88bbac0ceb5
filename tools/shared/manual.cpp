#include "shared/manual.h"

#include <anello/version.h>

#include <cctype>
#include <iostream>
#include <sstream>
#include <vector>

namespace shared {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

std::string replaced(const std::string& text, const std::string& characters, const std::string& by) {
  std::string out;
  for (const char each : text) {
    if (characters.find(each) != std::string::npos) {
      out += by == "\\" ? by + each : by;
    } else {
      out += each;
    }
  }
  return out;
}

// ---- troff ----

// Dashes are minus signs, which readers copy; a line must not begin with a request.
std::string troff(const std::string& text) {
  std::string out;
  for (const char each : text) {
    if (each == '\\') {
      out += "\\e";
    } else if (each == '-') {
      out += "\\-";
    } else {
      out += each;
    }
  }
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

std::string heading(const std::string& title) { return ".SH \"" + title + "\"\n"; }

std::string upper(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

// What stands in a section: indented lines stay as they are.
std::string troff_lines(const Lines& lines) {
  std::string out;
  bool literal = false;
  for (const std::string& line : lines) {
    const bool indented = begins(line, "  ");
    if (indented != literal) out += indented ? ".PP\n.nf\n.RS 2\n" : ".RE\n.fi\n.PP\n";
    literal = indented;
    out += line.empty() ? ".PP\n" : troff(indented ? line.substr(2) : line) + "\n";
  }
  if (literal) out += ".RE\n.fi\n";
  return out;
}

// The footer of --help, cut where a line such as "Examples:" or "Exit code: ..." begins a section. What stands before
// any such line, or after the examples, belongs to the description.
struct Sections {
  Lines description;
  std::vector<std::pair<std::string, Lines>> others;
};

Sections sections_of(const std::string& footer) {
  Sections sections;
  Lines* into = &sections.description;
  bool after_blank = true;
  for (const std::string& line : lines_of(footer)) {
    const auto colon = line.find(':');
    if (line == "Examples:") {
      into = &sections.others.emplace_back("EXAMPLES", Lines()).second;
    } else if (after_blank && begins(line, "Exit code:")) {
      into = &sections.others.emplace_back("EXIT STATUS", Lines{line.substr(colon + 2)}).second;
    } else {
      if (after_blank && !line.empty() && line[0] != ' ' && into != &sections.description) {
        into = &sections.description;
        if (!into->empty()) into->push_back("");
      }
      into->push_back(line);
    }
    after_blank = line.empty();
  }
  return sections;
}

// ---- Options ----

struct Names {
  std::vector<std::string> dashed;  // "-n", "--np"
  std::string value;                // "N"; empty for a flag
};

std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* each : app.get_options())
    if (!each->get_group().empty() && each->get_positional() == positional) options.push_back(each);
  return options;
}

Names names_of(const CLI::Option& option) {
  Names names;
  for (const std::string& each : option.get_snames()) names.dashed.push_back("-" + each);
  for (const std::string& each : option.get_lnames()) names.dashed.push_back("--" + each);
  if (option.get_expected_max() > 0 && option.get_items_expected_max() > 0) names.value = option.get_type_name();
  return names;
}

// The words of a value such as "none|core"; none if any value will do.
std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> words;
  if (value.find('|') == std::string::npos) return words;
  std::istringstream in(value);
  for (std::string word; std::getline(in, word, '|');) words.push_back(word);
  return words;
}

std::string troff_option(const CLI::Option& option) {
  const Names names = names_of(option);
  std::string out = ".TP\n";
  std::string tag;
  for (const std::string& each : names.dashed) tag += (tag.empty() ? "\\fB" : ", \\fB") + troff(each) + "\\fR";
  if (tag.empty())
    tag = "\\fI" + troff(option.get_name(true)) + "\\fR";
  else if (!names.value.empty())
    tag += " \\fI" + troff(names.value) + "\\fR";
  out += tag + "\n" + troff(option.get_description());
  if (!option.get_default_str().empty()) out += " (default: " + troff(option.get_default_str()) + ")";
  return out + "\n";
}

std::string troff_options(const CLI::App& app) {
  std::string out, group;
  for (const CLI::Option* each : shown_options(app, true)) out += troff_option(*each);
  for (const std::string& name : app.get_groups()) {
    for (const CLI::Option* each : shown_options(app, false)) {
      if (each->get_group() != name) continue;
      if (group != name && name != "Options") out += ".SS \"" + troff(name) + "\"\n";
      group = name;
      out += troff_option(*each);
    }
  }
  return out;
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& each : words) out += (out.empty() ? "" : between) + each;
  return out;
}

// All words that may begin an argument.
std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* each : shown_options(app, false))
    for (const std::string& name : names_of(*each).dashed) words.push_back(name);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(each->get_name());
  return words;
}

std::string for_bash(const CLI::App& app) {
  const std::string function = "_" + replaced(app.get_name(), "-", "_");
  std::string out =
      function + "() {\n  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n  case $before in\n";
  for (const CLI::Option* each : shown_options(app, false)) {
    const Names names = names_of(*each);
    if (names.value.empty()) continue;
    const std::vector<std::string> choices = choices_of(names.value);
    out +=
        "    " + joined(names.dashed, "|") + ") " +
        (choices.empty() ? "COMPREPLY=()" : "COMPREPLY=($(compgen -W '" + joined(choices, " ") + "' -- \"$word\"))") +
        "; return ;;\n";
  }
  out += "  esac\n  if [[ $word == -* || ${#COMP_WORDS[@]} -eq 2 ]]; then\n    COMPREPLY=($(compgen -W '" +
         joined(words_of(app), " ") + "' -- \"$word\"))\n  fi\n}\ncomplete -o default -F " + function + " " +
         app.get_name() + "\n";
  return out;
}

std::string for_zsh(const CLI::App& app) {
  const auto plain = [](const std::string& text) { return replaced(replaced(text, "\\[]:", "\\"), "'`$", "\""); };
  std::string out = "#compdef " + app.get_name() + "\n\n_arguments \\\n";
  for (const CLI::Option* each : shown_options(app, false)) {
    const Names names = names_of(*each);
    const std::vector<std::string> choices = choices_of(names.value);
    std::string value;
    if (!names.value.empty()) {
      value = ":" + plain(names.value) + ":";
      value += choices.empty() ? "_files" : "(" + joined(choices, " ") + ")";
    }
    for (const std::string& name : names.dashed)
      out += "  '" + name + "[" + plain(each->get_description()) + "]" + value + "' \\\n";
  }
  return out + "  '*::argument:_normal'\n";
}

std::string for_fish(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* each : shown_options(app, false)) {
    const Names names = names_of(*each);
    out += "complete -c " + app.get_name();
    for (const std::string& name : each->get_snames()) out += " -s " + name;
    for (const std::string& name : each->get_lnames()) out += " -l " + name;
    if (!names.value.empty()) out += " -r";
    const std::vector<std::string> choices = choices_of(names.value);
    if (!choices.empty()) out += " -f -a '" + joined(choices, " ") + "'";
    out += " -d '" + replaced(each->get_description(), "\\'", "\\") + "'\n";
  }
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    out += "complete -c " + app.get_name() + " -a " + each->get_name() + " -d '" +
           replaced(each->get_description(), "\\'", "\\") + "'\n";
  return out;
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  // "anello-info: version, build, ..." or "Measures which ..."; more lines are the synopsis.
  Lines description = lines_of(app.get_description());
  std::string title = description.empty() ? "" : description[0];
  if (begins(title, app.get_name() + ": ")) title.erase(0, app.get_name().size() + 2);
  if (!title.empty() && title.back() == '.') title.pop_back();
  const Sections sections = sections_of(app.get_footer());

  std::string out = ".TH " + upper(app.get_name()) + " 1 \"\" \"Anello " ANELLO_VERSION_STRING "\" \"User Commands\"\n";
  out += heading("NAME") + troff(app.get_name()) + " \\- " + troff(title) + "\n" + heading("SYNOPSIS");
  if (description.size() > 1) {
    out += troff_lines(Lines(description.begin() + 1, description.end()));
  } else {
    out += "\\fB" + troff(app.get_name()) + "\\fR [\\fIoptions\\fR]";
    for (const CLI::Option* each : shown_options(app, true)) out += " [\\fI" + troff(each->get_name(true)) + "\\fR]";
    out += "\n";
  }
  if (!sections.description.empty()) out += heading("DESCRIPTION") + troff_lines(sections.description);
  out += heading("OPTIONS") + troff_options(app);
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    out += ".SS \"" + troff(each->get_name()) + "\"\n" + troff(each->get_description()) + "\n" + troff_options(*each);
  for (const auto& [name, lines] : sections.others) out += heading(name) + troff_lines(lines);
  return out + heading("SEE ALSO") + ".BR anellorun (1),\n.BR anello\\-perf (1),\n.BR anello\\-info (1),\n" +
         ".BR anello\\-plan (1),\n.BR anello\\-top (1),\n.BR anello\\-tune (1)\n";
}

std::string completion(const CLI::App& app, const std::string& shell) {
  return shell == "bash" ? for_bash(app) : shell == "zsh" ? for_zsh(app) : for_fish(app);
}

void add_manual(CLI::App& app) {
  app.add_flag_callback(
         "--print-man",
         [&app] {
    std::cout << manual_page(app);
    throw CLI::Success();
         })
      ->group("");
  app.add_option_function<std::string>(
         "--print-completion",
         [&app](const std::string& shell) {
    std::cout << completion(app, shell);
    throw CLI::Success();
         })
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->group("");
}

}  // namespace shared
