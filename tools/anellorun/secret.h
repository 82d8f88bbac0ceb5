#pragma once
// The secret by which the ranks of a job know each other, in a page that no core dump contains.
#include "anellorun/descriptor.h"

#include <cstddef>
#include <string_view>

namespace anellorun {

class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  // Drawn, or a copy of the one that the launcher has sent. Both throw.
  Secret();
  explicit Secret(std::string_view bytes);
  ~Secret();
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  std::string_view bytes() const { return {reinterpret_cast<const char*>(page_), kBytes}; }
  // A sealed memory file with the secret, or a pipe if memory files are not allowed. There is one for each rank, so
  // that each reads it from its beginning. Throws std::system_error.
  Descriptor file() const;

 private:
  unsigned char* page_;
};

// Random bytes from the kernel. Throws std::system_error.
void draw(void* into, std::size_t bytes);

}  // namespace anellorun
