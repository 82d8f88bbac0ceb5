#pragma once
// The ranks whose processes have ended, according to the launcher of this host's ranks: a page of memory that only the
// launcher writes (ANELLO_ENDED_FD), with one byte for each rank. These ranks will not join.
#include <cstddef>
#include <memory>

namespace anello::bootstrap {

class EndedRanks {
 public:
  // The page of a launcher that started all ranks of such a job. Null: there is none.
  static std::shared_ptr<const EndedRanks> of(int descriptor, int ranks);
  ~EndedRanks();
  EndedRanks(const EndedRanks&) = delete;
  EndedRanks& operator=(const EndedRanks&) = delete;

  bool has(int rank) const;

  // The beginning of its file; the bytes of ranks follow. The launcher writes this text.
  static constexpr char kMark[16] = "anello ended 1\n";

 private:
  EndedRanks(const std::byte* at, std::size_t bytes) : at_(at), bytes_(bytes) {}
  const std::byte* at_;
  std::size_t bytes_;
};

}  // namespace anello::bootstrap
