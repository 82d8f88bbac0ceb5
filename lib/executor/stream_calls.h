#pragma once
// Calls in callers' streams. A stream hands over to the rank when a call may begin, and waits until it has run
// (device/handover.h). Requires the rank's lock.
//
// The rank makes the call's copies, in a queue of its own: one that a stream holds back would hold up copies of other
// streams of the process, also those that other ranks wait for, since they share the device's copy engines.
//
// A call takes its place in its communicator's order when it is enqueued; in a graph, each time that it is replayed.
// When a communicator has failed, streams pass all its calls without waiting.
#include "recorder/ledger.h"
#include "device/handover.h"
#include "device/pinned.h"
#include "executor/group.h"
#include "executor/parts.h"
#include "progress/source.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace anello::executor {

// The calls of one communicator in one stream, or one call of a graph.
struct StreamLine {
  StreamLine(Group& of, device::Device& on, void* in, device::Handover::Use use)
      : group(&of), device(on), stream(in), is_of_graph(use == device::Handover::Use::in_graph), handover(on, use) {}
  ~StreamLine();
  StreamLine(const StreamLine&) = delete;
  StreamLine& operator=(const StreamLine&) = delete;
  // Nobody uses it any more.
  bool is_over() const;

  Group* group;  // null: it is gone
  device::Device& device;
  void* const stream;
  const std::thread::id thread = std::this_thread::get_id();  // that opened it
  const bool is_of_graph;
  device::Handover handover;
  std::vector<device::PinnedBlock> blocks;  // the last serves new calls; earlier ones serve what has been enqueued
  std::deque<Operation*> calls;             // that have not begun
  bool is_open = false;     // a thread is enqueuing its newest call, and uses the line without the rank's lock
  bool is_spoiled = false;  // a call has failed: its peers may have replaced pages of the blocks
  bool is_copying = false;  // for ever: the device hangs
  std::size_t to_come = 0;  // times that the stream will still hand over
  Operation* running = nullptr;
  Operation* replayed = nullptr;  // of a graph: the call
  int replayed_peer = -1;         // its source or destination
  recorder::CallRecord record;    // and its record
};

class StreamCalls final : public progress::Source {
 public:
  explicit StreamCalls(Parts& parts);

  // The line of a group's calls in a stream, or a fresh one for a graph. It is open for the caller. Throws Error.
  StreamLine& open_line(Group& group, device::Device& device, void* stream, bool is_captured);
  // Host memory for a call's buffers, shared by all calls of the line. Throws Error.
  static std::byte* room_in(StreamLine& line, std::size_t bytes);

  // The two halves of a call in its stream. Not under the rank's lock: a stream whose queue is full makes these wait,
  // and what is first in the queue may wait for the rank. Throw Error.
  static void enqueue_come(StreamLine& line);
  static void enqueue_wait(StreamLine& line);
  // The call is posted, and its stream will come to it; or it is of a graph.
  static void add(Operation& operation);
  static void add_replayed(Operation& operation, const recorder::CallRecord& record);
  // Its stream will not come to the call that was added last.
  static void take_back(StreamLine& line);

  // The operation has run, or ends with an error: its stream goes on.
  void end(Operation& operation);
  // An operation that is complete, and used no more; null: there is none.
  Operation* take_ended();
  // The group ends, and with it the messages that their streams have not come to.
  void end_messages(Group& group, const Error& error);
  // The communicator goes away.
  void forget(Group& group);

  bool move() override;
  int longest_sleep_ms() const override { return lines_.empty() ? kAsLongAsOthers : 1; }
  long poll_again_ns() const override;
  // Whether streams will hand over though no operation is in flight.
  bool is_awaited() const;

 private:
  void begin(StreamLine& line);

  Parts& parts_;
  Outcomes& outcomes_;
  std::vector<std::unique_ptr<StreamLine>> lines_;
  std::vector<Operation*> running_;  // for their deadlines
  std::deque<Operation*> ended_;
  std::int64_t next_tick_ns_ = 0;
};

}  // namespace anello::executor
