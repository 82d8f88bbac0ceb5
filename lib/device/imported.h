#pragma once
// Memory of another process's that this process has opened on one of its devices, once for all its ranks.
#include "base/unique_fd.h"
#include "device/exported.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace anello::device {

class Imported {
 public:
  // What that process had at the same addresses, and so has freed, is closed first. pieces: the descriptors of the
  // record's pieces, if that is the way. Throws Error: it cannot be opened.
  static std::shared_ptr<Imported> open(Device& device, std::uint64_t key, const ExportRecord& record,
                                        const std::vector<UniqueFd>& pieces);
  ~Imported();
  Imported(const Imported&) = delete;
  Imported& operator=(const Imported&) = delete;

  // Null: it has been closed, as its owner has freed it.
  std::byte* data() const;

  // What a device that hangs may still use stays open. Throws std::bad_alloc.
  static void keep_for_ever(std::shared_ptr<const void> mapping);
  // Closes what nobody uses any more, unless a stream waits for a rank of this process (waiting_streams.h).
  static void close_unused() noexcept;

 private:
  Imported(Device& device, const ExportRecord& record);
  void open_handle(const ExportRecord& record);
  void map_pieces(const ExportRecord& record, const std::vector<UniqueFd>& pieces);
  void leave() noexcept;

  Device& device_;
  const std::uint64_t process_;
  const std::uint64_t start_;
  const std::size_t bytes_;
  const bool is_mapped_;
  std::uint64_t at_ = 0;
};

}  // namespace anello::device
