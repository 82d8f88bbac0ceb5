// anello-info: describes this build of Anello and this host. Attach its output to every bug report.
#include "info/cuda.h"
#include "info/host.h"
#include "info/library.h"
#include "info/rdma.h"
#include "info/report.h"

#include "shared/command_line.h"
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
      "  anellorun -np 1 --bind-to core anello-info      what a rank finds that is started so");
  shared::add_manual(app);
  bool json = false;
  app.add_flag("--json", json, "Writes JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return shared::end(app, error);
  }

  const std::vector<info::Section> sections{info::library(),    info::build(), info::processors(), info::memory(),
                                            info::transports(), info::rdma(),  info::cuda()};
  std::cout << (json ? info::as_json(sections) : info::as_table(sections));
  return std::cout.flush() ? 0 : 1;
}
