#pragma once
// What the command line chooses; equal on all ranks.
#include <cstdint>
#include <string>
#include <vector>

namespace parameter_server {

enum class Mode {
  synchronous,   // an update applies the mean of one gradient of every worker
  asynchronous,  // each gradient is an update of its own, applied when it arrives
  compensated,   // likewise, corrected for the updates since its worker received the weights (DC-ASGD)
  allreduce,     // no server: the ranks average their gradients themselves
};

struct Settings {
  Mode mode = Mode::asynchronous;
  int epochs = 3;
  int batch = 100;             // images of one gradient of one worker
  int steps = 0;               // gradients of each worker; 0: as many as the epochs have
  float learning_rate = 0.1f;  // of the first update; falls linearly to 0
  float compensation = 0.04f;  // DC-ASGD's lambda
  std::uint64_t seed = 1;
  std::vector<int> hidden = {128, 64};
};

// The same word on the command line, in the output and in the report.
std::string name_of(Mode mode);

}  // namespace parameter_server
