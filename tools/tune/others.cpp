#include "tune/others.h"

#include "base/text.h"

#include <algorithm>
#include <chrono>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace anello::tune {
namespace {

// More than the load of a quiet system.
constexpr double kQuiet = 0.05;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The time of all processors in all states except idle and waiting for disks, including time that the host took from
// this machine. Negative: unknown.
double busy_s() {
  std::ifstream file("/proc/stat");
  std::string word;
  double user, nice, system, idle, waiting, irq, softirq, stolen;
  if (!(file >> word >> user >> nice >> system >> idle >> waiting >> irq >> softirq >> stolen)) return -1;
  return (user + nice + system + irq + softirq + stolen) / double(::sysconf(_SC_CLK_TCK));
}

double own_s() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    for (const timeval& each : {used.ru_utime, used.ru_stime})
      seconds += double(each.tv_sec) + double(each.tv_usec) * 1e-6;
  }
  return seconds;
}

}  // namespace

Others::Others() : busy_s_(busy_s()), own_s_(own_s()), begin_s_(now_s()) {}

double Others::share() const {
  const double busy = busy_s();
  if (busy < 0 || busy_s_ < 0) return 0;
  const double all_s = (now_s() - begin_s_) * double(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp((busy - busy_s_ - (own_s() - own_s_)) / all_s, 0.0, 1.0);
}

std::string Others::warning() const {
  const double used = share();
  if (used <= kQuiet) return "";
  return text("other programs took ", int(used * 100 + 0.5),
              " % of the processors' time meanwhile: measure again when they rest");
}

}  // namespace anello::tune
