#pragma once
// How the launcher's parts report a system call that failed.
#include <cerrno>
#include <system_error>

namespace anellorun {

[[noreturn]] inline void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

}  // namespace anellorun
