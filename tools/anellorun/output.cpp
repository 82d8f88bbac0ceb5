#include "anellorun/output.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace anellorun {

void Sink::write_some() {
  // The shell shares the descriptor, so it stays blocking; for a pipe, "writable" guarantees PIPE_BUF bytes.
  struct stat kind {};
  const bool file = fstat(fd_, &kind) == 0 && S_ISREG(kind.st_mode);
  const std::size_t bytes = file ? waiting_.size() : std::min<std::size_t>(waiting_.size(), PIPE_BUF);
  const ssize_t written = ::write(fd_, waiting_.data(), bytes);
  if (written >= 0) {
    waiting_.erase(0, static_cast<std::size_t>(written));
  } else if (errno != EINTR && errno != EAGAIN) {
    gone_ = true;
    waiting_.clear();
  }
}

void Lines::hand_on(std::size_t bytes) {
  if (bytes > 0) log_->put(std::string_view(partial_).substr(0, bytes));
  std::string text;
  std::size_t begin = 0;
  while (begin < bytes) {
    const std::size_t newline = partial_.find('\n', begin);
    const std::size_t end = newline == std::string::npos || newline >= bytes ? bytes : newline + 1;
    if (!inside_line_) text += tag_;
    text.append(partial_, begin, end - begin);
    inside_line_ = partial_[end - 1] != '\n';
    begin = end;
  }
  partial_.erase(0, bytes);
  if (sink_ != nullptr) sink_->put(text);
}

void Lines::put(std::string_view bytes) {
  partial_.append(bytes);
  const std::size_t newline = partial_.rfind('\n');
  if (newline != std::string::npos) hand_on(newline + 1);
  if (partial_.size() > kLongestLine) hand_on(partial_.size());
}

void Lines::end() {
  hand_on(partial_.size());
  if (inside_line_ && sink_ != nullptr) sink_->put("\n");  // otherwise the next rank's line would continue this one
  inside_line_ = false;
}

}  // namespace anellorun
