// Sends the log to the caller's callback.
#include "api/last_error.h"
#include "base/log.h"
#include "base/text.h"

#include <optional>
#include <utility>

using namespace anello;
using namespace anello::api;

namespace {

anello_log_level_t level_of(log::Level level) {
  switch (level) {
    case log::Level::trace: return ANELLO_LOG_TRACE;
    case log::Level::debug: return ANELLO_LOG_DEBUG;
    case log::Level::info: return ANELLO_LOG_INFO;
    case log::Level::warn: return ANELLO_LOG_WARN;
    case log::Level::error: return ANELLO_LOG_ERROR;
  }
  return ANELLO_LOG_OFF;
}

std::optional<log::Level> least_of(anello_log_level_t level) {
  for (const log::Level each :
       {log::Level::trace, log::Level::debug, log::Level::info, log::Level::warn, log::Level::error}) {
    if (level_of(each) <= level) return each;
  }
  return std::nullopt;
}

}  // namespace

extern "C" {

anello_result_t anello_set_log(anello_log_t callback, void* context, anello_log_level_t level) {
  return guard(ANELLO_COMM_NULL, [&] {
    if (level < ANELLO_LOG_FROM_ENVIRONMENT || level > ANELLO_LOG_TRACE) {
      throw Error(ANELLO_ERR_ARGUMENT, text("anello_set_log: ", int(level), " is not an anello_log_level_t"));
    }
    log::Sink sink;
    if (callback != nullptr) {
      sink = [callback, context](log::Level of, const char* line) { callback(context, level_of(of), line); };
    }
    log::set_sink(std::move(sink), level == ANELLO_LOG_FROM_ENVIRONMENT ? log::configured() : least_of(level));
    return ANELLO_OK;
  });
}

}  // extern "C"
