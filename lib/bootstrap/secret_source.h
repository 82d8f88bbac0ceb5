#pragma once
// The source of the job's secret: a descriptor that the launcher left open (ANELLO_SECRET_FD), else a file that only
// its owner can read (ANELLO_SECRET_FILE).
#include "control/secret.h"

#include <optional>
#include <string>

namespace anello::bootstrap {

// Reads it once per process. Empty: there is none. Throws Error: ANELLO_ERR_AUTH.
std::optional<control::Key> given_secret();

// The two sources themselves.
control::Key secret_from_descriptor(int fd);
control::Key secret_from_file(const std::string& path);

}  // namespace anello::bootstrap
