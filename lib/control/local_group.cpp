#include "control/local_group.h"

#include "base/error.h"
#include "base/file_limit.h"
#include "base/text.h"
#include "control/secret.h"

#include <cerrno>
#include <map>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace anello::control {
namespace {

struct Mappings {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<LocalGroup>> by_nonce;
};

Mappings& mappings() {
  static Mappings* const instance = new Mappings;
  return *instance;
}

std::vector<int> numbers(const std::vector<UniqueFd>& descriptors) {
  std::vector<int> result;
  for (const UniqueFd& descriptor : descriptors) result.push_back(descriptor.get());
  return result;
}

}  // namespace

std::shared_ptr<LocalGroup> LocalGroup::make(int ranks, std::vector<UniqueFd> wake, std::vector<Death> deaths) {
  std::shared_ptr<LocalGroup> group(new LocalGroup);
  group->layout_ = {ranks, ring_bytes_for(ranks)};
  if (const std::string why = file_limit_forbids(group->layout_.bytes()); !why.empty()) {
    throw Error(ANELLO_ERR_RESOURCE,
                text("the ", group->layout_.bytes(), " bytes that ", ranks, " ranks of this host share: ", why));
  }
  group->memory_ = UniqueFd(::memfd_create("anello", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!group->memory_) {
    const bool lack = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    throw Error(lack ? ANELLO_ERR_RESOURCE : ANELLO_ERR_SYSTEM, system_text("memfd_create", errno));
  }
  const auto bytes = static_cast<off_t>(group->layout_.bytes());
  if (::ftruncate(group->memory_.get(), bytes) != 0) {
    throw Error(ANELLO_ERR_RESOURCE,
                text("shared memory of ", bytes, " bytes is not allowed: ", system_text("ftruncate", errno)));
  }
  // It may grow (extent.h), which harms no rank; if it shrank, the next access of the others would cause a SIGBUS.
  if (::fcntl(group->memory_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    throw system_error("fcntl(F_ADD_SEALS)", errno);
  }
  // Allocates the fixed part and the first communicator's board now; other boards and the rings at their first use.
  const std::size_t fixed = group->layout_.boards() + group->layout_.board_stride();
  if (::fallocate(group->memory_.get(), 0, 0, static_cast<off_t>(fixed)) != 0) {
    throw Error(ANELLO_ERR_RESOURCE, text("the ", fixed, " bytes that ", ranks,
                                          " ranks of this host share cannot be "
                                          "had: ",
                                          system_text("fallocate", errno)));
  }
  group->wake_ = std::move(wake);
  group->deaths_ = std::move(deaths);
  group->attach();
  memory::ArenaHeader& header = group->arena(0).header();
  header.nonce = group->nonce_ = random_number();
  header.ranks = static_cast<std::uint32_t>(ranks);
  header.ring_bytes = static_cast<std::uint32_t>(group->layout_.ring_bytes);
  header.board_users[0].store(static_cast<std::uint32_t>(ranks), std::memory_order_relaxed);
  group->enlist(group);
  return group;
}

std::shared_ptr<LocalGroup> LocalGroup::map(std::uint64_t nonce, int ranks, std::size_t ring_bytes, UniqueFd memory,
                                            std::vector<UniqueFd> wake, std::vector<Death> deaths) {
  std::shared_ptr<LocalGroup> group(new LocalGroup);
  group->layout_ = {ranks, ring_bytes};
  group->memory_ = std::move(memory);
  struct stat about {};
  const int seals = ::fcntl(group->memory_.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(group->memory_.get(), &about) != 0 ||
      static_cast<std::size_t>(about.st_size) != group->layout_.bytes()) {
    throw Error(ANELLO_ERR_CORRUPT, "the shared memory that was passed is not a sealed arena of the right size");
  }
  group->wake_ = std::move(wake);
  group->deaths_ = std::move(deaths);
  group->attach();
  group->nonce_ = nonce;
  const memory::Arena arena = group->arena(0);
  const memory::ArenaHeader& header = arena.header();
  if (header.nonce != nonce || header.ranks != static_cast<std::uint32_t>(ranks) || header.ring_bytes != ring_bytes) {
    throw Error(ANELLO_ERR_SYSTEM, "the mapping does not show what its maker wrote");
  }
  group->enlist(group);
  return group;
}

std::shared_ptr<LocalGroup> LocalGroup::find(std::uint64_t nonce) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_nonce.find(nonce);
  return found == all.by_nonce.end() ? nullptr : found->second.lock();
}

void LocalGroup::attach() {
  void* const at =
      ::mmap(nullptr, layout_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_.get(), 0);
  if (at == MAP_FAILED) {
    throw Error(errno == ENOMEM ? ANELLO_ERR_RESOURCE : ANELLO_ERR_SYSTEM,
                text("mapping ", layout_.bytes(), " bytes: ", system_text("mmap", errno)));
  }
  base_ = static_cast<std::byte*>(at);
  ::madvise(base_, layout_.bytes(), MADV_DONTFORK);
  wake_numbers_ = numbers(wake_);
}

void LocalGroup::enlist(const std::shared_ptr<LocalGroup>& self) {
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_nonce[nonce_] = self;
}

LocalGroup::~LocalGroup() {
  // A forked child never had the mapping (MADV_DONTFORK), and something else may be at its address by now.
  if (in_forked_child()) return;
  {
    Mappings& all = mappings();
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_nonce.find(nonce_);
    if (found != all.by_nonce.end() && found->second.expired()) all.by_nonce.erase(found);
  }
  if (base_ != nullptr) ::munmap(base_, layout_.bytes());
}

}  // namespace anello::control
