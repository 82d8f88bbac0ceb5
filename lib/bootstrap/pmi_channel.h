#pragma once
// The bytes of either version of PMI: a stream socket to the launcher, with a deadline for every wait.
#include "base/clock.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace anello::bootstrap {

class PmiChannel {
 public:
  explicit PmiChannel(int descriptor) : descriptor_(descriptor) {}

  static constexpr std::size_t kMostBytes = 4096;  // of an answer

  void send(std::string_view bytes, const Deadline& deadline);
  // Reads up to a line's end, which it leaves out, or exactly so many bytes: what follows is not this rank's. late: the
  // error if they do not come.
  std::string receive_line(const std::string& late, const Deadline& deadline);
  std::string receive(std::size_t bytes, const std::string& late, const Deadline& deadline);

  // Throws Error (ANELLO_ERR_RENDEZVOUS).
  [[noreturn]] static void fail(const std::string& why);

 private:
  bool wait(short events, const Deadline& deadline) const;
  std::size_t receive_some(char* into, std::size_t most, const std::string& late, const Deadline& deadline);

  int descriptor_;
};

}  // namespace anello::bootstrap
