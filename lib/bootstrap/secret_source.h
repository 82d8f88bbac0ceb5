#pragma once
// The job's secret as its owner hands it down: a descriptor that the launcher left open (ANELLO_SECRET_FD), else a file
// that only its owner can read (ANELLO_SECRET_FILE).
#include "control/secret.h"

#include <optional>
#include <string>

namespace anello::bootstrap {

// Read once a process. Empty: none was given. Throws Error: ANELLO_ERR_AUTH.
std::optional<control::Key> given_secret();

// The two sources themselves.
control::Key secret_from_descriptor(int fd);
control::Key secret_from_file(const std::string& path);

}  // namespace anello::bootstrap
