#pragma once
// What a port's device reports beside completions: that it has failed, and that the port's link goes down or comes up.
#include "transports/verbs/library.h"

#include <string>

namespace anello::transport {

class VerbsPortEvents {
 public:
  // name: of the port, for texts.
  VerbsPortEvents(ibv_context* context, int port, std::string name);
  VerbsPortEvents(const VerbsPortEvents&) = delete;
  VerbsPortEvents& operator=(const VerbsPortEvents&) = delete;

  // Readable if an event has come.
  int descriptor() const { return context_->async_fd; }
  // Takes in those that have come.
  void look();
  void take(const ibv_async_event& event);

  bool has_failed() const { return has_failed_; }
  bool is_link_down() const { return is_link_down_; }
  // How often the link has come up, or the port's addresses have changed.
  unsigned returns() const { return returns_; }

 private:
  ibv_context* const context_;
  const int port_;
  const std::string name_;
  bool has_failed_ = false;
  bool is_link_down_ = false;
  unsigned returns_ = 0;
};

}  // namespace anello::transport
