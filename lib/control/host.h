#pragma once
// A process's knowledge about itself and its host, which others compare with theirs.
#include <cstdint>
#include <string>

namespace anello::control {

struct Host {
  std::string name;         // for people
  std::uint64_t reach = 0;  // equal for processes whose abstract sockets reach each other: one kernel, one network
                            // namespace. Independent of process namespaces. 0: /proc does not show it.
  std::uint64_t process_space = 0;  // equal for processes that find each other by their numbers in /proc; 0: not known
  std::uint64_t process = 0;        // random, once per process
  std::int64_t pid = 0;
  std::uint32_t uid = 0;
};
const Host& this_host();

}  // namespace anello::control
