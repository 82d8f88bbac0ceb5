#include "bootstrap/meeting_file.h"

#include "base/error.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "control/secret.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::bootstrap {
namespace {

// Fixed sizes; texts are padded with zeros.
struct Layout {
  char magic[16];
  std::int64_t pid;
  char host[72];
  char job[160];
  anello_unique_id_t id;
};
constexpr char kMagic[16] = "anello meeting1";

Error refused(const std::string& path, const std::string& why) {
  return {ANELLO_ERR_AUTH, text("the meeting file ", path, " cannot be used: ", why)};
}

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

}  // namespace

MeetingNote parse_note(const std::string& bytes, const std::string& path) {
  Layout layout;
  const control::Wiped wiped(std::as_writable_bytes(std::span(layout.id.bytes)));
  if (bytes.size() != sizeof layout || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    throw refused(path, "it is not one of Anello's; choose a name that no other file has");
  }
  std::memcpy(&layout, bytes.data(), sizeof layout);
  return {text_of(layout.job), text_of(layout.host), layout.pid, layout.id};
}

std::optional<MeetingNote> MeetingFile::read() const {
  // A network file system looks again whether the file is there once the folder has been read.
  const std::size_t slash = path_.rfind('/');
  if (DIR* const folder = ::opendir(slash == std::string::npos ? "." : path_.substr(0, slash + 1).c_str()))
    ::closedir(folder);
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) throw refused(path_, errno == ELOOP ? std::string("it is a symbolic link") : system_text("open", errno));
  // This checks the open file, so that nobody can replace it in between.
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) throw refused(path_, system_text("fstat", errno));
  if (!S_ISREG(about.st_mode)) throw refused(path_, "it is not a regular file");
  if (about.st_uid != ::geteuid()) throw refused(path_, text("it belongs to user ", about.st_uid));
  if ((about.st_mode & 077) != 0) throw refused(path_, "others may read or write it");
  std::string bytes(sizeof(Layout) + 1, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) throw refused(path_, system_text("read", errno));
  bytes.resize(static_cast<std::size_t>(got));
  const control::Wiped wiped(std::as_writable_bytes(std::span(bytes)));
  return parse_note(bytes, path_);
}

bool MeetingFile::says(const MeetingNote& note) const {
  const std::optional<MeetingNote> now = read();
  return now && std::memcmp(now->id.bytes, note.id.bytes, sizeof note.id.bytes) == 0;
}

// A file with the note under a name of its own in the same folder. Nobody ever sees half a note.
std::string MeetingFile::write_beside(const MeetingNote& note) const {
  Layout layout{};
  const control::Wiped wiped(std::as_writable_bytes(std::span(layout.id.bytes)));
  std::memcpy(layout.magic, kMagic, sizeof kMagic);
  layout.pid = note.pid;
  note.host.copy(layout.host, sizeof layout.host - 1);
  note.job.copy(layout.job, sizeof layout.job - 1);
  layout.id = note.id;
  const std::string name = text(path_, ".", note.host, ".", note.pid);
  ::unlink(name.c_str());
  const UniqueFd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw refused(path_, text("a file beside it cannot be made: ", system_text("open", errno)));
  const bool written = ::fchmod(file.get(), 0600) == 0 &&
                       ::write(file.get(), &layout, sizeof layout) == sizeof layout && ::fsync(file.get()) == 0;
  if (!written) {
    const int error = errno;
    ::unlink(name.c_str());
    throw refused(path_, system_text("write", error));
  }
  return name;
}

bool MeetingFile::create(const MeetingNote& note) const {
  const std::string beside = write_beside(note);
  const int failed = ::link(beside.c_str(), path_.c_str()) == 0 ? 0 : errno;
  ::unlink(beside.c_str());
  if (failed != 0 && failed != EEXIST) throw refused(path_, system_text("link", failed));
  return failed == 0;
}

void MeetingFile::replace(const MeetingNote& note) const {
  const std::string beside = write_beside(note);
  if (::rename(beside.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(beside.c_str());
  throw refused(path_, system_text("rename", error));
}

void MeetingFile::remove(const MeetingNote& note) const {
  try {
    if (says(note)) ::unlink(path_.c_str());
  } catch (const Error&) {
    // Somebody has put something else there.
  }
}

}  // namespace anello::bootstrap
