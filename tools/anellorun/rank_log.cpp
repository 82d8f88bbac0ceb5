#include "anellorun/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace anellorun {

void RankLog::open(const std::string& path, const std::string& heading) {
  const int how = heading.empty() ? O_TRUNC : O_APPEND;
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666));
  if (!file_) throw std::system_error(errno, std::generic_category(), path);
  if (!heading.empty()) write("\n" + heading + "\n");  // the last line above may have no end
}

void RankLog::write(std::string_view text) {
  while (file_ && !text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;  // a full disk: the job goes on
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void RankLog::put(std::string_view text) {
  write(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    last_.emplace_back(text.substr(0, std::min(end, kLongest)));
    if (last_.size() > kLines) last_.pop_front();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace anellorun
