#include "transports/verbs/port_events.h"

#include "base/log.h"

#include <utility>

#include <fcntl.h>

namespace anello::transport {

VerbsPortEvents::VerbsPortEvents(ibv_context* context, int port, std::string name)
    : context_(context), port_(port), name_(std::move(name)) {
  ::fcntl(context_->async_fd, F_SETFL, ::fcntl(context_->async_fd, F_GETFL) | O_NONBLOCK);
}

void VerbsPortEvents::look() {
  ibv_async_event event{};
  while (verbs_library().get_async_event(context_, &event) == 0) {
    take(event);
    verbs_library().ack_async_event(&event);
  }
}

// Events of queue pairs and completion queues show in completions, too.
void VerbsPortEvents::take(const ibv_async_event& event) {
  const bool of_port = event.element.port_num == port_;
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      if (!std::exchange(has_failed_, true)) log::warn(-1, name_, ": the adapter has failed; see dmesg");
      return;
    case IBV_EVENT_PORT_ERR:
      if (!of_port || std::exchange(is_link_down_, true)) return;
      log::warn(-1, name_, ": the link is down");
      return;
    case IBV_EVENT_PORT_ACTIVE:
      if (!of_port) return;
      ++returns_;
      if (std::exchange(is_link_down_, false)) log::warn(-1, name_, ": the link is up again");
      return;
    case IBV_EVENT_GID_CHANGE: returns_ += of_port ? 1 : 0; return;
    default: return;
  }
}

}  // namespace anello::transport
