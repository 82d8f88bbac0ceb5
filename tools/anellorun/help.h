#pragma once
namespace anellorun {

// What --help says after the options.
extern const char* const kHelp;

}  // namespace anellorun
