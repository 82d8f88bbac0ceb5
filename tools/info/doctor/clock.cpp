#include "info/doctor/checks.h"
#include "info/system_file.h"

#include <sys/timex.h>
#include <time.h>

#include <cstdint>
#include <cstdio>

namespace info::doctor {
namespace {

std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Of one reading.
double cost_of_reading() {
  constexpr int kReadings = 2'000;
  const std::int64_t begin = nanoseconds();
  for (int i = 0; i < kReadings; ++i) nanoseconds();
  return double(nanoseconds() - begin) / kReadings;
}

constexpr double kSlow = 1'000;  // those that need no system call take 20 to 60 ns

}  // namespace

Finding clock() {
  const char* const kName = "clock";
  timex state{};
  const int result = adjtimex(&state);
  if (result < 0) return ok(kName, "not known here whether it is synchronized");
  if (result != TIME_ERROR && (state.status & STA_UNSYNC) == 0)
    return ok(kName, "synchronized, within " + std::to_string(state.maxerror / 1000) + " ms");
  return warning(kName, "not synchronized",
                 "The times in logs and traces of several hosts do not match. Jobs run all the same.",
                 "sudo timedatectl set-ntp true        on the host; a container has its host's clock");
}

Finding clock_source() {
  const char* const kName = "clock source";
  const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
  const std::string source = first_line(folder + "current_clocksource");
  const double cost = cost_of_reading();
  char value[96];
  std::snprintf(value, sizeof value, "%s, %.0f ns for a reading", source.empty() ? "not named" : source.c_str(), cost);
  if (cost < kSlow) return ok(kName, value);
  const bool has_tsc = first_line(folder + "available_clocksource").find("tsc") != std::string::npos;
  return warning(kName, value, "Calls that take a few microseconds take longer, because each wait reads the clock.",
                 has_tsc ? "echo tsc | sudo tee " + folder + "current_clocksource"
                         : "cat " + folder +
                               "available_clocksource        names the others; write one of them to "
                               "current_clocksource");
}

}  // namespace info::doctor
