// A rank of an MPI launcher that uses its key space twice, as two creations do, and prints "both" if it got what rank 0
// has put there. The last rank ends much later than the others.
// Argument: the version of PMI.
#include "base/error.h"
#include "bootstrap/key_space.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

using namespace anello;
using namespace anello::bootstrap;

int main(int count, char** arguments) {
  const char* const descriptor = std::getenv("PMI_FD");
  const char* const rank = std::getenv("PMI_RANK");
  const char* const job = std::getenv("PMI_JOBID");
  if (count != 2 || descriptor == nullptr || rank == nullptr) return 2;
  try {
    KeySpace& space = key_space_of_process({std::atoi(descriptor), std::atoi(arguments[1]), job != nullptr ? job : ""},
                                           std::atoi(rank));
    std::string got;
    for (const char* const key : {"anello-0", "anello-1"}) {
      const Deadline deadline = Deadline::in_ms(20'000);
      // As long as a unique id in digits.
      if (std::atoi(rank) == 0) space.put(key, std::string(256, key[7]), deadline);
      space.barrier(deadline);
      got += space.get(key, deadline);
    }
    if (got != std::string(256, '0') + std::string(256, '1')) return 3;
    if (std::atoi(rank) == 2) ::sleep(1);
    std::puts("both");
  } catch (const Error& error) {
    std::puts(error.text().c_str());
    return 1;
  }
}
