#pragma once
// Calls with buffers on a device: the copies before they begin and after they have run. A call that is offered to run
// in place waits only for earlier work of the device's default stream. Requires the rank's lock.
//
// Calls keep their order: a collective that waits for its data holds up later ones of its communicator, and a send
// holds up later sends. An operation that fails waits for its own copies, which end by themselves, so that nothing is
// stored after it has ended.
//
// A copy that waits for the default stream, while that waits for a rank, could hold up the very copies that this rank
// has to make (stream_calls.h). So while streams wait, only a mark is enqueued there, and the copies once it is
// reached.
#include "device/queue.h"
#include "executor/group.h"
#include "executor/parts.h"
#include "executor/shadow.h"
#include "progress/source.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace anello::executor {

class Shadows final : public progress::Source {
 public:
  explicit Shadows(Parts& parts);
  ~Shadows() override;

  // Enqueues the copies of what the operation reads. Throws Error.
  void fetch(Operation& operation);
  // Likewise, for an operation that has been offered in vain: it goes on in host memory (Entering::data_came). Throws
  // Error.
  void move_to_host(Operation& operation);
  // The stream has come to the operation. True: its data is fetched first, by fetch_from_stream(), once the operation
  // is where it waits. That one throws Error.
  static bool come_in_stream(Operation& operation);
  void fetch_from_stream(Operation& operation);
  // Likewise as fetch, for an operation that is not posted before fetched() holds. Throws Error.
  void fetch_early(Operation& operation);
  bool fetched(Operation& operation);
  // What is wrong with the device that it is not; none: it works, or hangs.
  Error fault_of(const Operation& operation) { return queue_of(operation).fault(); }
  // Whether the message has to wait for its data, or behind a send that does. Outcomes::may_start tells when it need
  // not any more.
  bool holds_up(Operation& message);

  // Whether a receive, whose message an adapter would bring to the device, has to wait until the default stream has
  // come to it. Messages::stream_came tells when it need not any more.
  bool awaits_stream(Operation& receive);

  // A step is done: enqueues the copies of the pieces into which no other will store. If the device refuses, deliver()
  // copies them and says so.
  void give_back(Operation& operation, std::uint32_t step);
  // Likewise, after a frame of the message.
  void give_back_received(Operation& receive);
  // Enqueues the copies of what the operation has written; Outcomes::delivered tells when they are done. False: there
  // is nothing to copy. Throws Error.
  bool deliver(Operation& operation);
  // The operation ends with an error: nothing is copied for it any more.
  void abandon(Operation& operation);
  // The group ends: messages that wait end with the error, and operations that are being delivered end first.
  void end_all(Group& group, const Error& error);

  bool move() override;
  // No descriptor tells of the end of a copy.
  int longest_sleep_ms() const override { return is_idle() ? kAsLongAsOthers : 1; }
  long poll_again_ns() const override { return longest_sleep_ms() == 1 ? 100'000 : kNotByTime; }

 private:
  struct Queues {
    explicit Queues(device::Device& device)
        : to_host(device, device::Queue::Order::with_default),
          to_device(device, device::Queue::Order::with_default),
          later_to_host(device, device::Queue::Order::alone),
          later_to_device(device, device::Queue::Order::alone) {}
    device::Queue to_host;
    device::Queue to_device;
    // Of calls that the default stream has come to before, or that are in another stream.
    device::Queue later_to_host;
    device::Queue later_to_device;
  };
  bool is_idle() const { return waiting_.empty() && in_pieces_.empty() && delivering_.empty(); }
  Queues& queues(int device);
  device::Queue& queue_of(const Operation& operation);
  void note_order(Shadow& shadow);
  void enqueue_reads(Operation& operation);
  void enqueue_pieces(Operation& operation, device::Queue& queue);
  void enqueue_writes(Operation& operation);
  void copy_after_mark(Operation& operation);
  template <class Copies>
  void enqueue(Shadow& shadow, device::Queue& queue, Copies&& copies);
  bool is_copied(const Operation& operation);
  bool wait_for_copies(const Operation& operation);
  void take_out(Operation& operation);
  bool begin_ready();
  bool go_on_with_pieces();
  bool end_delivered();
  void find_faults();

  Parts& parts_;
  control::Job& job_;
  Outcomes& outcomes_;
  std::map<int, std::unique_ptr<Queues>> queues_;  // by device
  std::vector<Operation*> waiting_;                // in the order of posting
  std::vector<Operation*> in_pieces_;              // that run, and whose data is still coming
  std::vector<Operation*> delivering_;
  unsigned polls_ = 0;  // in vain
};

}  // namespace anello::executor
