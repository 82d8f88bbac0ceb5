#pragma once
// A process's recorder: a memfd with a section for each communicator of each of its ranks. It has no name, ends with
// the process, and only its owner's processes may open it (through /proc/PID/fd). Where no memfd can be had, sections
// lie in ordinary memory, and only this process sees them.
#include "base/error.h"
#include "recorder/section.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace anello::recorder {

// The beginning of the file. Whatever differs between two builds of Anello that read each other's memory shows here.
struct FileHeader {
  static constexpr std::uint64_t kMagic = 0x31706f74'6c6e616aull;
  static constexpr std::uint32_t kLayout = 1;  // counts up with every change of Section
  static constexpr std::size_t kAt = 4096;     // of the first section
  static constexpr std::size_t kMost = 1024;   // sections
  static constexpr const char* kName = "anello-recorder";

  std::uint64_t magic;
  std::uint32_t layout;
  std::uint32_t section_bytes;  // from one to the next
  std::int64_t pid;             // as the process sees it
  char version[24];
  std::atomic<std::uint32_t> used[kMost / 32];  // bit i: section i is in use
};
static_assert(sizeof(FileHeader) <= FileHeader::kAt);
inline constexpr std::size_t kSectionBytes = (sizeof(Section) + 4095) / 4096 * 4096;

// Owns a section.
class Record {
 public:
  explicit Record(const Identity& identity);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  Section* operator->() { return section_; }
  Section& operator*() { return *section_; }
  const Section* operator->() const { return section_; }

  // The communicator has failed with this error: writes the section to ANELLO_DUMP_DIR, if that is set. Returns what
  // there is to add to the error's text. Any thread may call it.
  std::string fail(const Error& error);
  // Likewise, unless it has failed before. For the service thread, while the rank may not come to it.
  void fail_elsewhere(const Error& error);

 private:
  void publish(const Error& error);

  Section* section_;
  int place_;  // in the file; -1: in ordinary memory
  std::mutex failing_;
  std::atomic<bool> failed_{false};
};

}  // namespace anello::recorder
