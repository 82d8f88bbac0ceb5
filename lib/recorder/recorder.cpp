#include "recorder/recorder.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "memory/backing.h"
#include "recorder/dump.h"

#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::recorder {
namespace {

class File {
 public:
  File() {
    watch_forks();
    if (!file_limit_forbids(FileHeader::kAt).empty()) return;
    UniqueFd file(::memfd_create(FileHeader::kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    // Its reader opens it anew, and needs no more. Shrinking would turn that reader's next access into a SIGBUS.
    if (!file || ::fchmod(file.get(), 0400) != 0 || ::fallocate(file.get(), 0, 0, FileHeader::kAt) != 0 ||
        ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
      return;
    std::byte* const mapped = memory::map_pages(file.get(), 0, FileHeader::kAt + FileHeader::kMost * kSectionBytes);
    if (mapped == nullptr) return;
    header_ = reinterpret_cast<FileHeader*>(mapped);
    header_->layout = FileHeader::kLayout;
    header_->section_bytes = std::uint32_t(kSectionBytes);
    header_->pid = ::getpid();
    std::strncpy(header_->version, ANELLO_VERSION_STRING, sizeof header_->version - 1);
    std::atomic_ref(header_->magic).store(FileHeader::kMagic, std::memory_order_release);
    file_ = std::move(file);
  }

  // -1: there is no place.
  int take(const Identity& identity, Section** section) {
    const std::lock_guard held(mutex_);
    if (header_ == nullptr) return -1;
    for (std::size_t word = 0; word < FileHeader::kMost / 32; ++word) {
      std::atomic<std::uint32_t>& used = header_->used[word];
      const std::uint32_t now = used.load(std::memory_order_relaxed);
      if (now == ~std::uint32_t{0}) continue;
      const int bit = std::countr_one(now);
      const std::size_t place = word * 32 + std::size_t(bit);
      const std::uint64_t at = FileHeader::kAt + place * kSectionBytes;
      if (!file_limit_forbids(at + kSectionBytes).empty() ||
          ::fallocate(file_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(kSectionBytes)) != 0)
        return -1;
      std::byte* const memory = reinterpret_cast<std::byte*>(header_) + at;
      memory::populate(memory, kSectionBytes);
      *section = new (memory) Section(identity);
      used.store(now | std::uint32_t{1} << bit, std::memory_order_release);
      return int(place);
    }
    return -1;
  }

  void give_back(int place) {
    const std::lock_guard held(mutex_);
    std::atomic<std::uint32_t>& used = header_->used[place / 32];
    used.store(used.load(std::memory_order_relaxed) & ~(std::uint32_t{1} << (place % 32)), std::memory_order_release);
    memory::give_pages_back(file_.get(), FileHeader::kAt + std::size_t(place) * kSectionBytes, kSectionBytes);
  }

 private:
  std::mutex mutex_;
  UniqueFd file_;
  FileHeader* header_ = nullptr;
};

// Leaked: a communicator may be destroyed by a static destructor.
File& file() {
  static File* const instance = new File;
  return *instance;
}

}  // namespace

Record::Record(const Identity& identity) : section_(nullptr), place_(file().take(identity, &section_)) {
  if (place_ < 0) section_ = new Section(identity);
}

Record::~Record() {
  if (in_forked_child()) return;  // it is the parent's
  if (place_ < 0) {
    delete section_;
  } else {
    file().give_back(place_);
  }
}

void Record::publish(const Error& error) {
  Failure failure;
  failure.code = error.code();
  failure.peer = error.peer();
  failure.at_ns = now_ns();
  std::strncpy(failure.text, error.text().c_str(), sizeof failure.text - 1);
  section_->failure.publish(failure);
}

std::string Record::fail(const Error& error) {
  const std::lock_guard held(failing_);
  failed_.store(true, std::memory_order_relaxed);
  publish(error);
  const std::string& folder = Config::get().dump_dir;
  if (folder.empty()) return {};
  try {
    const std::string path = write_dump(snapshot_of(*section_), folder);
    return text("; what this rank did last is in ", path, " (anello-info --explain-dump ", folder, ")");
  } catch (const std::exception& why_not) {
    return text("; what this rank did last could not be written: ", why_not.what());
  }
}

void Record::fail_elsewhere(const Error& error) {
  if (!failed_.load(std::memory_order_relaxed)) fail(error);
}

}  // namespace anello::recorder
