#include "bootstrap/secret_source.h"

#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"

#include <cerrno>
#include <mutex>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::bootstrap {
namespace {

using control::Key;

constexpr std::size_t kMinSecret = 16, kMaxSecret = 4096;
constexpr int kReadMs = 5'000;

Error refused(const std::string& source, const std::string& why) {
  return {ANELLO_ERR_AUTH, text("the job's secret (", source, ") cannot be used: ", why)};
}

Key read_secret(int fd, const std::string& source) {
  std::byte buffer[kMaxSecret + 1];
  const control::Wiped wiped(buffer);
  std::size_t have = 0;
  while (have < sizeof buffer) {
    // A pipe whose other end is never closed must not block the job forever; anellorun writes 32 bytes.
    pollfd waiting{fd, POLLIN, 0};
    if (have < 32 && ::poll(&waiting, 1, kReadMs) == 0) throw refused(source, "nothing arrives");
    if (have >= 32 && ::poll(&waiting, 1, 0) == 0) break;
    const ssize_t got = ::read(fd, buffer + have, sizeof buffer - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw refused(source, system_text("read", errno));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have < kMinSecret) throw refused(source, text("it has ", have, " bytes, at least ", kMinSecret, " are needed"));
  if (have > kMaxSecret) throw refused(source, text("it has more than ", kMaxSecret, " bytes"));
  return control::key_from("anello secret", {buffer, have});
}

}  // namespace

Key secret_from_descriptor(int fd) {
  const std::string source = text("ANELLO_SECRET_FD=", fd);
  // From here on, programs that this rank starts do not inherit the secret.
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    throw refused(source, "no such descriptor is open; a program that a rank has started does not get it");
  }
  // All ranks that inherited a memfd share it and its position.
  struct stat about {};
  if (::fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
    std::byte buffer[kMaxSecret];
    const control::Wiped wiped(buffer);
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, 0);
    if (got < static_cast<ssize_t>(kMinSecret))
      throw refused(source, text("at least ", kMinSecret, " bytes are needed"));
    return control::key_from("anello secret", {buffer, static_cast<std::size_t>(got)});
  }
  return read_secret(fd, source);
}

Key secret_from_file(const std::string& path) {
  const std::string source = "ANELLO_SECRET_FILE=" + path;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    throw refused(source, errno == ELOOP ? std::string("it is a symbolic link") : system_text("open", errno));
  }
  // This checks the open file, so that nobody can replace it in between.
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) throw refused(source, system_text("fstat", errno));
  if (!S_ISREG(about.st_mode)) throw refused(source, "it is not a regular file");
  if (about.st_uid != ::geteuid()) throw refused(source, text("it belongs to user ", about.st_uid));
  if ((about.st_mode & 077) != 0) throw refused(source, "others may read or write it; chmod 600 it");
  return read_secret(file.get(), source);
}

std::optional<Key> given_secret() {
  static std::mutex mutex;
  static std::optional<Key>* const kept = new std::optional<Key>;
  const std::lock_guard lock(mutex);
  if (*kept) return *kept;
  const Config& config = Config::get();
  if (config.secret_fd >= 0) {
    *kept = secret_from_descriptor(static_cast<int>(config.secret_fd));
  } else if (!config.secret_file.empty()) {
    *kept = secret_from_file(config.secret_file);
  }
  return *kept;
}

}  // namespace anello::bootstrap
