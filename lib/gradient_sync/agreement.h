#pragma once
// Checks that all ranks must make together before they continue, so that no rank waits for a rank whose arguments were
// refused.
#include "base/error.h"
#include "gradient_sync/collective.h"

#include <optional>
#include <string>
#include <vector>

namespace anello::gradient_sync {

// The exception that all ranks throw. It need not be reported to other ranks: an abort would reach ranks that are still
// receiving the others' messages.
class Agreed : public Error {
 public:
  using Error::Error;
};

// Collective. Throws on all ranks the objection of the lowest rank that has one; the text begins with "rank 2: ".
void agree(const Collectives& all, const std::optional<Error>& objection);

// Collective: the lists of all ranks must be equal. Throws ANELLO_ERR_MISMATCH on all ranks with the first place where
// some rank differs from rank 0. what: "parameter" 3 is ..
void agree_on(const Collectives& all, const char* what, const std::vector<std::string>& said);

}  // namespace anello::gradient_sync
