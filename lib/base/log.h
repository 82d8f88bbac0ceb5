#pragma once
// The log: off, error, warn, info, debug or trace (ANELLO_LOG, default warn), to standard error or ANELLO_LOG_FILE.
// Decisions are logged with the rank: "[anello 3] peer 1 over shm". Nothing else in the library prints.
#include "base/text.h"

#include <functional>
#include <optional>
#include <string>

namespace anello::log {

enum class Level { trace, debug, info, warn, error };

bool enabled(Level level);

// Until the next call, lines of at least this severity (none: no line) go to sink, one at a time, instead of the log's
// own target. An empty sink restores that target. When it returns, an earlier sink is not running.
using Sink = std::function<void(Level level, const char* line)>;
void set_sink(Sink sink, std::optional<Level> least);
// The level of ANELLO_LOG; nothing for "off".
std::optional<Level> configured();
// rank -1: a process that has no rank yet.
void write(Level level, int rank, const std::string& message);

template <class... Parts>
void info(int rank, const Parts&... parts) {
  if (enabled(Level::info)) write(Level::info, rank, text(parts...));
}
template <class... Parts>
void warn(int rank, const Parts&... parts) {
  if (enabled(Level::warn)) write(Level::warn, rank, text(parts...));
}
template <class... Parts>
void debug(int rank, const Parts&... parts) {
  if (enabled(Level::debug)) write(Level::debug, rank, text(parts...));
}

}  // namespace anello::log
