#pragma once
// Parses the bodies of control frames between ranks and bounds every number. All functions throw Error
// (ANELLO_ERR_CORRUPT) and have no side effects. size is that of the job.
#include "control/call_records.h"
#include "control/job.h"
#include "control/wire.h"

#include <cstdint>
#include <vector>

namespace anello::control {

// The most ranks in a frame; news of a larger communicator goes to all ranks.
inline constexpr std::size_t kMaxListed = 8192;

struct LostBody {
  int rank;
  Error error;
};
struct AskBody {
  std::uint64_t communicator;
  std::uint32_t sequence;
  int asker;
};
struct AnswerBody {
  int asker;
  int from;
  std::uint64_t communicator;
  std::uint32_t sequence;
  CallHistory history;
};
struct FailedBody {
  std::uint64_t communicator;
  Error error;
  std::vector<int> ranks;  // empty: all
};

struct LifeBody {
  Life life;
  std::vector<int> ranks;
};
struct SilentBody {
  std::vector<int> ranks;
  std::string how;
};

int take_rank(Reader& reader, int size);
bool take_beat(Reader& reader);  // whether the sender wants an answer
LostBody take_lost(Reader& reader, int size);
AskBody take_ask(Reader& reader, int size);
AnswerBody take_answer(Reader& reader, int size);
FailedBody take_failed(Reader& reader, int size);
LifeBody take_life(Reader& reader, int size);
SilentBody take_silent(Reader& reader, int size);

}  // namespace anello::control
