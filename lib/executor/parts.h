#pragma once
// The parts of one rank's executor. Each part owns its data; its constructor takes this struct and keeps the references
// that it needs.
#include "memory/read_policy.h"

namespace anello::control {
class Job;
}
namespace anello::health {
class PeerFates;
}
namespace anello::memory {
class Buffers;
}
namespace anello::messaging {
class FramePool;
}
namespace anello::progress {
class Driver;
}

namespace anello::executor {

struct Activity;
class Announcing;
class Entering;
class Gets;
class Groups;
class KeptFrames;
class Messages;
class Outcomes;
class Rounds;
class Routes;
class Shadows;
class StepGets;
class Steps;
class StreamCalls;
class Supervision;

struct Parts {
  control::Job& job;
  const int sharing;  // ranks of this host per processor
  const memory::ReadPolicy::Wish staging;
  // Parts of lower layers.
  progress::Driver& driver;
  health::PeerFates& fates;
  messaging::FramePool& frames;
  memory::Buffers& buffers;
  // The executor's own parts.
  Activity& activity;
  Groups& groups;
  Routes& routes;             // lanes, and the frames that leave and arrive over them
  KeptFrames& kept;           // frames that came early, and credit
  Steps& steps;               // the engine, and steps at peers' buffers
  Gets& gets;                 // messages that the receiver gets from the sender's buffer
  StepGets& step_gets;        // likewise, of steps' messages between hosts
  Shadows& shadows;           // calls with buffers on a device
  StreamCalls& stream_calls;  // calls in callers' streams
  Messages& messages;         // send, recv and probe
  Rounds& rounds;             // rounds of lines on the communicators' boards
  Announcing& announcing;     // a rank's first line of a call over peers' memory
  Entering& entering;         // the schedule of such a call
  Supervision& supervision;   // deadlines, lost ranks, calls that differ
  Outcomes& outcomes;
};

}  // namespace anello::executor
