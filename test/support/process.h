#pragma once
// Programs started by a test, this one again as a rank among them.
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace anello::test {

using Settings = std::map<std::string, std::string>;

std::string own_path();
// Starts a program with these variables besides its parent's, in and out connected to in_fd and out_fd (-1: as here).
// Throws std::runtime_error.
pid_t start(const std::vector<std::string>& command, const Settings& environment, int in_fd, int out_fd);

}  // namespace anello::test
