// anello-top: shows what the ranks on this host do, without stopping them.
#include "top/reports.h"

#include "jobs/explanation.h"
#include "recorder/dump.h"
#include "shared/command_line.h"
#include "shared/complaint.h"
#include "shared/manual.h"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

struct Wish {
  bool once = false, all = false, json = false, prometheus = false, explain = false;
  double interval = 1;
  std::vector<std::int64_t> pids;
  std::string job, dump;
};

jobs::Look look(const Wish& wish) {
  jobs::Look look = jobs::look(wish.pids);
  std::erase_if(look.ranks,
                [&](const jobs::Shown& each) { return top::job_name(each.snapshot.who).rfind(wish.job, 0) != 0; });
  return look;
}

int write_dumps(const jobs::Look& seen, const std::string& folder) {
  for (const jobs::Shown& each : seen.ranks) std::cout << anello::recorder::write_dump(each.snapshot, folder) << '\n';
  std::cout << "anello-info --explain-dump " << folder << " says which rank stopped first\n";
  return 0;
}

std::string report(const Wish& wish, const jobs::Look& before, const jobs::Look& now) {
  if (wish.explain) return jobs::explain(jobs::settled(before, now));
  const std::vector<top::Row> rows = top::rows_of(before, now);
  return wish.json ? top::as_json(rows) : wish.prometheus ? top::as_prometheus(rows) : top::as_table(rows, wish.all);
}

int run(const Wish& wish) {
  jobs::Look before = look(wish);
  for (const std::string& each : before.problems) std::cerr << "anello-top: " << each << '\n';
  const bool refreshes = !wish.once && !wish.json && !wish.prometheus && !wish.explain && wish.dump.empty();
  if (before.ranks.empty() && !refreshes) {
    std::cerr << "anello-top: no rank of Anello that this user may see runs on this host"
              << (wish.job.empty() && wish.pids.empty() ? "" : " and was asked for") << '\n';
    return 1;
  }
  if (!wish.dump.empty()) return write_dumps(before, wish.dump);
  const bool is_screen = ::isatty(STDOUT_FILENO) == 1;
  do {
    std::this_thread::sleep_for(std::chrono::duration<double>(wish.interval));
    jobs::Look now = look(wish);
    if (refreshes && is_screen) std::cout << "\x1b[H\x1b[2J";
    std::cout << report(wish, before, now);
    if (refreshes && now.ranks.empty()) std::cout << "no rank of Anello that this user may see runs on this host\n";
    if (!std::cout.flush()) return 1;
    before = std::move(now);
  } while (refreshes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("anello-top: shows what the ranks of Anello on this host do, without stopping them.", "anello-top");
  app.footer(
      "Examples:\n"
      "  anello-top                        a table that is renewed every second, until Ctrl-C\n"
      "  anello-top --once                 one table\n"
      "  anello-top --explain              which rank the others wait for, in sentences\n"
      "  anello-top --dump dumps           the last operations of each rank, as files for anello-info --explain-dump\n"
      "  anello-top --prometheus > /var/lib/node_exporter/anello.prom.new      counters, from a timer\n"
      "\n"
      "It finds ranks however they were started: those of processes of the same user, and with root all. A rank keeps\n"
      "a record of its operations in memory without a name, and this program maps that memory; the rank notices "
      "nothing.\n"
      "\n"
      "RANK is the rank in the job. COMM is the communicator, 1 the first one. SEQ is the number of the collective, or "
      "of\nthe message. STATE: works (calls have ended since the last look), waits (in the same operation since then), "
      "idle,\nfailed, or stopped by a signal or a debugger. WAITS FOR: the ranks that have not entered the operation, "
      "or whose data\nhas not come. BYTES/S counts the rank's buffers.\n"
      "\n"
      "Exit code: 0; 1 if there is no such rank; 2 for a mistake in the options.");
  shared::add_manual(app);
  Wish wish;
  app.add_flag("-1,--once", wish.once, "Prints one table and ends");
  app.add_option("-i,--interval", wish.interval, "Time between two looks, in seconds")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(shared::number(0.01, 3600));
  app.add_option("-p,--pid", wish.pids, "Only ranks of this process; may be given again")
      ->type_name("PID")
      ->check(shared::whole(1, 4194304));
  app.add_option("-j,--job", wish.job, "Only ranks of the job whose name begins so")->type_name("JOB");
  app.add_flag("-a,--all", wish.all, "Also communicators that do nothing, of ranks with another one");
  auto* const json = app.add_flag("--json", wish.json, "Writes one look as JSON and ends");
  auto* const prometheus =
      app.add_flag("--prometheus", wish.prometheus, "Writes one look in Prometheus's text format and ends")
          ->excludes(json);
  auto* const explain =
      app.add_flag("--explain", wish.explain, "Says in sentences which rank the others wait for, and ends");
  explain->excludes(json)->excludes(prometheus);
  app.add_option("--dump", wish.dump, "Writes the last operations of each rank to files in this folder, and ends")
      ->type_name("DIR")
      ->excludes(json)
      ->excludes(prometheus)
      ->excludes(explain);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return shared::end(app, error);
  }
  try {
    return run(wish);
  } catch (const std::exception& failure) {
    std::cerr << "anello-top: " << shared::complaint(failure) << '\n';
    return 1;
  }
}
