#include "jobs/local_ranks.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "recorder/recorder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace jobs {
namespace {

using anello::text;
using anello::UniqueFd;
using anello::recorder::FileHeader;
using anello::recorder::Section;
using anello::recorder::Snapshot;

// A recorder, mapped to be read.
class Mapping {
 public:
  explicit Mapping(const UniqueFd& file) {
    struct stat about {};
    const int seals = ::fcntl(file.get(), F_GET_SEALS);
    // One that could be cut would end this process.
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file.get(), &about) != 0) return;
    if (std::size_t(about.st_size) < FileHeader::kAt) return;
    void* const mapped = ::mmap(nullptr, std::size_t(about.st_size), PROT_READ, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) return;
    base_ = static_cast<const std::byte*>(mapped);
    bytes_ = std::size_t(about.st_size);
  }
  ~Mapping() {
    if (base_ != nullptr) ::munmap(const_cast<std::byte*>(base_), bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const FileHeader* header() const { return reinterpret_cast<const FileHeader*>(base_); }
  // Null: it is not in use.
  const Section* section(std::size_t place) const {
    const std::size_t at = FileHeader::kAt + place * anello::recorder::kSectionBytes;
    const bool used = header()->used[place / 32].load(std::memory_order_acquire) >> (place % 32) & 1;
    return used && at + anello::recorder::kSectionBytes <= bytes_ ? reinterpret_cast<const Section*>(base_ + at)
                                                                  : nullptr;
  }

 private:
  const std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

bool is_stopped(std::int64_t pid) {
  std::ifstream in(text("/proc/", pid, "/stat"));
  std::string line;
  std::getline(in, line);
  const std::size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         (line[name_end + 2] == 'T' || line[name_end + 2] == 't');
}

// The recorder of a process; empty: it has none, has ended, or is another user's.
UniqueFd open_recorder(std::int64_t pid) {
  static const std::string kTarget = text("/memfd:", FileHeader::kName, " (deleted)");
  const std::string folder = text("/proc/", pid, "/fd");
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    char target[64];
    const ssize_t length = ::readlink(at->path().c_str(), target, sizeof target);
    if (length < 0 || std::string(target, std::size_t(length)) != kTarget) continue;
    return UniqueFd(::open(at->path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  return {};
}

std::string version_of(const FileHeader& header) {
  return std::string(header.version, ::strnlen(header.version, sizeof header.version));
}

void look_at(std::int64_t pid, std::set<std::pair<dev_t, ino_t>>& seen, Look& into) {
  const UniqueFd file = open_recorder(pid);
  struct stat about {};
  // A child that was forked past the library may have its parent's descriptor.
  if (!file || ::fstat(file.get(), &about) != 0 || !seen.emplace(about.st_dev, about.st_ino).second) return;
  const Mapping mapping(file);
  const FileHeader* const header = mapping.header();
  if (header == nullptr || header->magic != FileHeader::kMagic) return;
  if (header->layout != FileHeader::kLayout || header->section_bytes != anello::recorder::kSectionBytes) {
    into.problems.push_back(text("process ", pid, " uses Anello ", version_of(*header),
                                 ", whose memory this program, of Anello ", ANELLO_VERSION_STRING, ", does not know"));
    return;
  }
  const bool stopped = is_stopped(pid);
  for (std::size_t place = 0; place < FileHeader::kMost; ++place) {
    const Section* const section = mapping.section(place);
    if (section == nullptr) continue;
    Shown shown{pid, int(place), stopped, anello::recorder::snapshot_of(*section)};
    shown.snapshot.version = version_of(*header);
    // It may have been given up meanwhile.
    if (shown.snapshot.who.size > 0 && mapping.section(place) != nullptr) into.ranks.push_back(std::move(shown));
  }
}

std::vector<std::int64_t> all_processes() {
  std::vector<std::int64_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoll(name));
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

}  // namespace

Look look(const std::vector<std::int64_t>& pids) {
  Look look;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::int64_t pid : pids.empty() ? all_processes() : pids) {
    const std::size_t before = look.ranks.size() + look.problems.size();
    look_at(pid, seen, look);
    if (pids.empty() || look.ranks.size() + look.problems.size() > before) continue;
    const bool is_there = ::access(text("/proc/", pid).c_str(), F_OK) == 0;
    const bool may = ::access(text("/proc/", pid, "/fd").c_str(), R_OK) == 0;
    look.problems.push_back(text("process ", pid,
                                 !is_there ? " does not exist"
                                 : !may    ? " is another user's, and only that user or root may look at it"
                                           : " has no communicator of Anello"));
  }
  look.at_ns = anello::now_ns();
  std::sort(look.ranks.begin(), look.ranks.end(), [](const Shown& a, const Shown& b) {
    const auto key = [](const Shown& each) {
      const auto& who = each.snapshot.who;
      return std::tuple(who.job, who.world_rank, who.communicator, each.pid);
    };
    return key(a) < key(b);
  });
  return look;
}

std::vector<Snapshot> settled(const Look& before, const Look& now) {
  std::vector<Snapshot> snapshots;
  for (const Shown& shown : now.ranks) {
    Snapshot snapshot = shown.snapshot;
    const auto earlier = std::find_if(before.ranks.begin(), before.ranks.end(), [&](const Shown& each) {
      return each.pid == shown.pid && each.place == shown.place &&
             each.snapshot.who.communicator == snapshot.who.communicator;
    });
    const Snapshot* const its = earlier == before.ranks.end() ? nullptr : &earlier->snapshot;
    for (Snapshot::Collective& each : snapshot.collectives) {
      const Snapshot::Collective* const was = its == nullptr ? nullptr : its->find(each.call.sequence);
      if (was == nullptr || was->ended) each.ended = true;
    }
    for (auto list : {&Snapshot::sent, &Snapshot::received}) {
      for (Snapshot::Message& each : snapshot.*list) {
        const bool stays =
            its != nullptr && std::any_of((its->*list).begin(), (its->*list).end(),
                                          [&](const auto& was) { return was.number == each.number && !was.ended; });
        if (!stays) each.ended = true;
      }
    }
    if (snapshot.in_flight() == nullptr ||
        (snapshot.waits && snapshot.waits->sequence != snapshot.in_flight()->call.sequence))
      snapshot.waits.reset();
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

}  // namespace jobs
