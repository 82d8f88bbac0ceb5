#pragma once
// A program's manual page and its shell completions, made from the options that --help shows.
#include <CLI/CLI.hpp>

#include <string>

namespace shared {

// Adds the options --print-man and --print-completion, which --help does not show: packaging calls them.
void add_manual(CLI::App& app);

// The page in section 1, as troff source.
std::string manual_page(const CLI::App& app);
// For bash, zsh or fish.
std::string completion(const CLI::App& app, const std::string& shell);

}  // namespace shared
