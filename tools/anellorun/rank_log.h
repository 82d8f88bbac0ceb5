#pragma once
// What a rank has printed, on both streams: its last lines, for the report of its failure, and a file of its own if the
// user wants one.
#include "anellorun/descriptor.h"

#include <deque>
#include <string>
#include <string_view>

namespace anellorun {

class RankLog {
 public:
  // Begins the file anew, or, if there is a heading, goes on in it below that line. Throws std::system_error.
  void open(const std::string& path, const std::string& heading);
  bool has_file() const { return static_cast<bool>(file_); }
  // Whole lines, or the beginning of a very long one.
  void put(std::string_view text);
  const std::deque<std::string>& last_lines() const { return last_; }

 private:
  void write(std::string_view text);

  static constexpr std::size_t kLines = 10;
  static constexpr std::size_t kLongest = 400;  // bytes of a line that are kept

  Descriptor file_;
  std::deque<std::string> last_;
};

}  // namespace anellorun
