#pragma once
// Whether streams wait for ranks of this process. To unpin or close memory waits for all that a device does: while a
// stream waits for a rank, that could wait for ever, as the rank may be the one that does it.
#include <functional>

namespace anello::device {

class Handover;

class WaitingStreams {
 public:
  static void add(const Handover& handover);
  static void remove(const Handover& handover);
  // Whether there are streams that hand over at all.
  static bool are_any();

  // While one lives, a thread is enqueuing a call. Waits while what follows is being done; not under the rank's lock.
  class Enqueuing {
   public:
    Enqueuing();
    ~Enqueuing();
    Enqueuing(const Enqueuing&) = delete;
    Enqueuing& operator=(const Enqueuing&) = delete;
  };
  // Does something that waits for devices, if no stream waits for a rank now. A graph may, as long as it is there.
  static bool do_if_none(const std::function<void()>& what);
  // Likewise, for something short that must only come before what streams wait for.
  static bool do_before_any(const std::function<void()>& what);
};

}  // namespace anello::device
