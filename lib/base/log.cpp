#include "base/log.h"

#include "base/config.h"
#include "base/uncancelled.h"
#include "base/write_signals.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace anello::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::trace: return spdlog::level::trace;
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warn: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::off;
}

// Leaked on purpose: ranks may log from threads that outlive static destructors.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    std::shared_ptr<spdlog::sinks::sink> sink;
    const Config& config = Config::get();
    if (!config.log_file.empty()) {
      try {
        sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(config.log_file);
      } catch (const spdlog::spdlog_ex&) {
        sink = nullptr;  // the file cannot be written: use standard error
      }
    }
    if (!sink) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto* made = new spdlog::logger("anello", sink);
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    made->set_level(config.log_level == "off" ? spdlog::level::off : spdlog::level::from_str(config.log_level));
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

struct Caller {
  std::mutex mutex;
  Sink sink;
};
Caller& caller() {
  static Caller* const instance = new Caller;  // leaked, as the logger is
  return *instance;
}
constexpr int kNoSink = -1;
constexpr int kNothing = 100;
std::atomic<int> sink_least{kNoSink};  // the Level from which lines go to the sink
thread_local bool inside_sink = false;

// False: there is no sink any more.
bool to_sink(Level level, const std::string& line) {
  Caller& to = caller();
  const std::lock_guard held(to.mutex);
  if (!to.sink) return false;
  inside_sink = true;
  try {
    to.sink(level, line.c_str());
  } catch (...) {
    // The library cannot report this, because the log itself failed.
  }
  inside_sink = false;
  return true;
}

}  // namespace

void set_sink(Sink sink, std::optional<Level> least) {
  const std::lock_guard held(caller().mutex);
  sink_least.store(!sink ? kNoSink : least ? static_cast<int>(*least) : kNothing, std::memory_order_relaxed);
  caller().sink = std::move(sink);
}

std::optional<Level> configured() {
  for (const Level level : {Level::trace, Level::debug, Level::info, Level::warn, Level::error}) {
    if (logger().should_log(to_spdlog(level))) return level;
  }
  return std::nullopt;
}

bool enabled(Level level) {
  const int least = sink_least.load(std::memory_order_relaxed);
  return least == kNoSink || inside_sink ? logger().should_log(to_spdlog(level)) : static_cast<int>(level) >= least;
}

void write(Level level, int rank, const std::string& message) {
  const Uncancelled whole;
  const WriteSignalsHeld signals;
  const std::string line = rank < 0 ? "[anello] " + message : text("[anello ", rank, "] ", message);
  if (sink_least.load(std::memory_order_relaxed) != kNoSink && !inside_sink && to_sink(level, line)) return;
  logger().log(to_spdlog(level), "{}", line);
}

}  // namespace anello::log
