#define CATCH_CONFIG_RUNNER
#include "failures/rank.h"
#include "support/catch.h"

#include <string>

#include <signal.h>

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--role") return failures::Role::play(argv[2]);
  ::signal(SIGPIPE, SIG_IGN);  // the judge's own pipes; ranks get the default back
  return Catch::Session().run(argc, argv);
}
