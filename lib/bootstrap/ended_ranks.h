#pragma once
// Ranks whose processes have ended, as the launcher of this host's ranks sees it: a page of memory that it alone writes
// (ANELLO_ENDED_FD), a byte for each rank. Who waits for one of them to come would wait in vain.
#include <cstddef>
#include <memory>

namespace anello::bootstrap {

class EndedRanks {
 public:
  // Of a launcher that started all ranks of such a job. Null: it says nothing of them.
  static std::shared_ptr<const EndedRanks> of(int descriptor, int ranks);
  ~EndedRanks();
  EndedRanks(const EndedRanks&) = delete;
  EndedRanks& operator=(const EndedRanks&) = delete;

  bool has(int rank) const;

  // What its file begins with; the bytes of ranks follow. The launcher writes the same.
  static constexpr char kMark[16] = "anello ended 1\n";

 private:
  EndedRanks(const std::byte* at, std::size_t bytes) : at_(at), bytes_(bytes) {}
  const std::byte* at_;
  std::size_t bytes_;
};

}  // namespace anello::bootstrap
