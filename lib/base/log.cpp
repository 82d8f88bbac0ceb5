#include "base/log.h"

#include "base/config.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

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
        sink = nullptr;  // an unwritable file: standard error has to do
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

}  // namespace

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void write(Level level, int rank, const std::string& message) {
  if (rank < 0) {
    logger().log(to_spdlog(level), "[anello] {}", message);
  } else {
    logger().log(to_spdlog(level), "[anello {}] {}", rank, message);
  }
}

}  // namespace anello::log
