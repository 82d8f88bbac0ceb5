#include "memory/pool.h"

#include "base/error.h"
#include "base/file_limit.h"
#include "base/text.h"
#include "memory/backing.h"

#include <cerrno>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::memory {

class Pool {
 public:
  Pool() : file_(::memfd_create("anello-regions", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (!file_) throw Error(ANELLO_ERR_RESOURCE, system_text("memfd_create", errno));
    // Shrinking would turn others' next access into a SIGBUS.
    if (::fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
      throw system_error("fcntl(F_ADD_SEALS)", errno);
  }

  int file() const { return file_.get(); }
  // A range larger than most files gets a file of its own.
  bool has_room(std::size_t bytes, bool apart) const {
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
    const std::uint64_t from = begin_of_next(apart);
    return from == 0 || (from + bytes <= kMostBytes && file_limit_forbids(from + bytes).empty());
  }
  // Returns where the range begins.
  std::uint64_t grow(std::size_t bytes, bool apart) {
    const std::uint64_t from = begin_of_next(apart);
    const auto end = static_cast<off_t>(from + bytes);
    struct stat about {};
    // Peers have the descriptor, too, and may have made the file longer.
    if (::ftruncate(file_.get(), end) != 0) {
      const int cause = errno;
      if (::fstat(file_.get(), &about) != 0 || about.st_size < end) {
        throw Error(ANELLO_ERR_RESOURCE, text("shared memory of ", bytes, " bytes: ", system_text("ftruncate", cause)));
      }
    }
    end_ = from + bytes;
    return from;
  }

 private:
  std::uint64_t begin_of_next(bool apart) const {
    return apart ? (end_ + kHugePage - 1) / kHugePage * kHugePage : end_;
  }

  const UniqueFd file_;
  std::uint64_t end_ = 0;  // of all ranges given out
};

namespace {

// Leaked: memory may be made up to the last static destructor.
struct Current {
  std::mutex mutex;
  std::shared_ptr<Pool> pool;
};
Current& current() {
  static Current* const instance = new Current;
  return *instance;
}

}  // namespace

PoolRange PoolRange::take(std::size_t bytes, bool apart) {
  watch_forks();
  if (in_forked_child())
    throw Error(ANELLO_ERR_FORKED, "this process was forked from one that uses Anello; only the parent may go on");
  if (const std::string why = file_limit_forbids(bytes); !why.empty()) {
    throw Error(ANELLO_ERR_RESOURCE, text("shared memory of ", bytes, " bytes: ", why));
  }
  PoolRange range;
  Current& all = current();
  const std::lock_guard held(all.mutex);
  if (!all.pool || !all.pool->has_room(bytes, apart)) all.pool = std::make_shared<Pool>();
  range.offset_ = all.pool->grow(bytes, apart);
  range.bytes_ = bytes;
  range.pool_ = all.pool;
  return range;
}

std::byte* PoolRange::map(void* place) const { return map_pages(pool_->file(), offset_, bytes_, place); }

bool PoolRange::back(std::byte* mapped, int node) const {
  return back_with_pages(pool_->file(), offset_, bytes_, mapped, node);
}

void PoolRange::give_back() const {
  if (pool_ && !in_forked_child()) give_pages_back(pool_->file(), offset_, bytes_);
}

PassedRange PassedRange::copy() const {
  if (!file) return {};
  return {UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), offset, bytes};
}

PassedRange PoolRange::pass() const {
  // A forked child's descriptor may be another file's by now.
  if (!pool_ || in_forked_child()) return {};
  return {UniqueFd(::fcntl(pool_->file(), F_DUPFD_CLOEXEC, 0)), offset_, bytes_};
}

}  // namespace anello::memory
