// anellorun: starts the ranks of a job on this machine and stays until the last of them has ended.
#include "anellorun/job.h"
#include "anellorun/options.h"
#include "anellorun/process.h"
#include "anellorun/supervisor.h"
#include "shared/complaint.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <iostream>

namespace {

// If the launcher starts with closed standard streams, it must not use their numbers for a pipe.
void open_standard_streams() {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace anellorun;
  open_standard_streams();
  Options options;
  int exit_code = 0;
  if (!parse(argc, argv, options, exit_code)) return exit_code;
  try {
    Job job(options);
    Supervisor supervisor(options);
    supervisor.start(job);
    return supervisor.run();
  } catch (const CannotStart& failure) {
    std::cerr << "anellorun: cannot start '" << options.program.front() << "': " << strerror(failure.code)
              << (failure.code == ENOENT ? "; is it a path (./prog) or in PATH?" : "") << '\n';
    return failure.code == ENOENT ? kExitNotFound : kExitCannotStart;
  } catch (const std::exception& failure) {
    std::cerr << "anellorun: " << shared::complaint(failure) << '\n';
    return kExitCannotStart;
  }
}
