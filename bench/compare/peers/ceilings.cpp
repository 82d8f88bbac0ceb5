// Shows what this machine allows, in the timing loop: --setting direct, oneline, oneshot, staged-KIB, attach, line,
// copy, and with
// --transport tcp: one-way/CONTROL, duplex/CONTROL[:CHUNK_KIB], within/CONTROL[:CHUNK_KIB].
#include "loop.h"
#include "shared_ceilings.h"
#include "tcp_ceilings.h"

int main(int argc, char** argv) {
  using namespace compare;
  std::string setting;
  for (int i = 1; i + 1 < argc; i += 2)
    if (std::string(argv[i]) == "--setting") setting = argv[i + 1];
  if (setting == "direct") return run<Direct>(argc, argv);
  if (setting == "oneline") return run<OneLine>(argc, argv);
  if (setting == "oneshot") return run<OneShot>(argc, argv);
  if (setting.starts_with("staged-")) return run<Staged>(argc, argv);
  if (setting == "attach") return run<Attach>(argc, argv);
  if (setting == "line") return run<LineExchange>(argc, argv);
  if (setting == "copy") return run<Copy>(argc, argv);
  if (setting.starts_with("one-way/")) return run<OneWay>(argc, argv);
  if (setting.starts_with("duplex/")) return run<Duplex>(argc, argv);
  if (setting.starts_with("within/")) return run<Within>(argc, argv);
  std::fprintf(stderr, "ceilings: unknown --setting %s\n", setting.c_str());
  return 1;
}
