// anello-info: describes this build of Anello and this host, and says what is wrong with it. Attach its output to every
// bug report.
#include "info/cuda.h"
#include "info/doctor.h"
#include "info/explain_dump.h"
#include "info/host.h"
#include "info/library.h"
#include "info/rdma.h"
#include "info/report.h"

#include "shared/command_line.h"
#include "shared/complaint.h"
#include "shared/manual.h"

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  CLI::App app("anello-info: version, build, processors, memory, which transports work here, RDMA ports, and GPUs.",
               "anello-info");
  app.footer(
      "Examples:\n"
      "  anello-info                  a table\n"
      "  anello-info --json           the same for programs\n"
      "  anello-info --doctor         what usually goes wrong on a host, and what to type where it does\n"
      "  anellorun -np 1 --bind-to core anello-info      what a rank finds that is started so\n"
      "  anello-info --explain-dump dumps                which rank stopped first, from the files that the ranks of a "
      "job "
      "wrote\n"
      "                               to the folder ANELLO_DUMP_DIR when it failed\n"
      "  anellorun --doctor --hosts alpha,beta           the doctor on each host, and between each two of them\n"
      "\n"
      "The doctor has a line for each thing that it looks at: ok; warning, if jobs are slower or some do not work; or\n"
      "problem, if jobs on this host do not work. Below a warning or problem it says what that means and what to "
      "type.\n"
      "--explain-dump takes the files, or folders, of as many ranks as there are; those of several hosts together say "
      "more.\n"
      "Exit code: 0; with --doctor, 1 if there is a problem; 2 for a mistake in the options.");
  shared::add_manual(app);
  bool json = false, doctor = false;
  std::vector<std::string> dumps;
  app.add_flag("--json", json, "Writes JSON");
  app.add_flag("--doctor", doctor, "Looks for what usually goes wrong on a host, and says what to do");
  app.add_option("--explain-dump", dumps, "Says which rank of a job stopped first, and why, from its ranks' files")
      ->type_name("FILE|DIR")
      ->check(shared::readable())
      ->excludes("--doctor");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return shared::end(app, error);
  }
  if (!dumps.empty()) {
    try {
      std::cout << info::explain_dump(dumps);
    } catch (const std::exception& wrong) {
      std::cerr << "anello-info: " << shared::complaint(wrong) << '\n';
      return shared::kExitUsage;
    }
    return std::cout.flush() ? 0 : 1;
  }
  if (doctor) {
    const std::vector<shared::Finding> findings = info::examine_host();
    std::cout << (json ? info::as_json(findings)
                       : shared::as_lines(findings) + '\n' + shared::summary(findings) + '\n');
    return std::cout.flush() && !shared::has_problem(findings) ? 0 : 1;
  }

  const std::vector<info::Section> sections{info::library(),    info::build(), info::processors(), info::memory(),
                                            info::transports(), info::rdma(),  info::cuda()};
  std::cout << (json ? info::as_json(sections) : info::as_table(sections));
  return std::cout.flush() ? 0 : 1;
}
