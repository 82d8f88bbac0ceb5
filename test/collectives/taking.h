#pragma once
// Memory that others can take messages from, contents that tell one message from another, and how many messages a rank
// has taken.
#include "support/thread_ranks.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace anello::test {

class Memory {
 public:
  explicit Memory(std::size_t bytes) { anello_mem_alloc(bytes, reinterpret_cast<void**>(&data_)); }
  ~Memory() { anello_mem_free(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  unsigned char* data() const { return data_; }

 private:
  unsigned char* data_ = nullptr;
};

inline unsigned char byte_of(std::size_t at, unsigned seed) {
  return static_cast<unsigned char>((at + 1) * 2654435761u * (2 * seed + 1) >> 13);
}
inline void fill(unsigned char* data, std::size_t bytes, unsigned seed) {
  for (std::size_t at = 0; at < bytes; ++at) data[at] = byte_of(at, seed);
}
inline bool holds(const unsigned char* data, std::size_t bytes, unsigned seed) {
  for (std::size_t at = 0; at < bytes; ++at) {
    if (data[at] != byte_of(at, seed)) return false;
  }
  return true;
}

// How many messages of the communicator this rank has taken from where they lay: of its messages, or of those of its
// collectives. how: "mapped", "read" by system call, or "rdma".
inline std::uint64_t taken(const Rank& me, anello_comm_t comm, const char* how = "mapped",
                           anello_kind_t kind = ANELLO_PROBE) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = kind;
  if (kind == ANELLO_PROBE) call.peer = ANELLO_ANY_SOURCE;
  char text[5000];
  std::size_t length = 0;
  me.ok(anello_explain(comm, &call, text, sizeof text, &length), "explain");
  std::string name(1, '"');
  name.append(how).append("\":");
  const char* found = std::strstr(text, "\"taken\":");
  if (found != nullptr) found = std::strstr(found, name.c_str());
  if (found == nullptr) me.report.wrong("explain says nothing of what was taken: ", text);
  return found == nullptr ? 0 : std::strtoull(found + name.size(), nullptr, 10);
}

}  // namespace anello::test
