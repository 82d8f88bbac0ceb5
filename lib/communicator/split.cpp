#include "communicator/split.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace anello {

Seating seating_of(const std::vector<Split::Choice>& choices, int rank) {
  const Split::Choice own = choices[std::size_t(rank)];
  Seating seating;
  if (own.color == ANELLO_UNDEFINED) return seating;
  for (int peer = 0; peer < static_cast<int>(choices.size()); ++peer) {
    if (choices[std::size_t(peer)].color == own.color) seating.ranks.push_back(peer);
  }
  std::stable_sort(seating.ranks.begin(), seating.ranks.end(),
                   [&](int a, int b) { return choices[std::size_t(a)].key < choices[std::size_t(b)].key; });
  const int first = seating.ranks.front();
  seating.board = choices[std::size_t(first)].board;
  if (!can_be_reserved(seating.board)) {
    throw Error(ANELLO_ERR_CORRUPT,
                text("rank ", first, " says that it has reserved board ", seating.board, " of ", memory::kMaxBoards,
                     "; its process has a memory fault or is not an Anello of this version"));
  }
  return seating;
}

void check_admission(const GroupAdmission& admission, const std::vector<int>& members, bool shares_memory, int tag) {
  const int first = members.front();
  const bool known =
      admission.differing == -1 || std::find(members.begin() + 1, members.end(), admission.differing) != members.end();
  if (!known || !can_be_reserved(admission.board) || (admission.board != -1 && !shares_memory)) {
    throw Error(ANELLO_ERR_CORRUPT, text("anello_comm_create_group: rank ", first, " gave an impossible answer (board ",
                                         admission.board, ", differing rank ", admission.differing,
                                         "); its process has a memory fault or is not an Anello of this version"));
  }
  if (admission.differing < 0) return;
  throw Error(ANELLO_ERR_MISMATCH, text("anello_comm_create_group: ranks ", first, " and ", admission.differing,
                                        " gave different lists of ranks, with tag ", tag));
}

}  // namespace anello
