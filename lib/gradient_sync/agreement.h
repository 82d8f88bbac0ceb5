#pragma once
// What all ranks must agree on before they go on, so that none waits for one that was refused.
#include "base/error.h"
#include "gradient_sync/collective.h"

#include <optional>
#include <string>
#include <vector>

namespace anello::gradient_sync {

// What all ranks throw. Nobody needs to be told of it: an abort would reach those that still receive the others' words.
class Agreed : public Error {
 public:
  using Error::Error;
};

// Collective. Throws on all ranks the objection of the lowest rank that has one; the text begins with "rank 2: ".
void agree(const Collectives& all, const std::optional<Error>& objection);

// Collective: what each rank says in order must be equal. Throws ANELLO_ERR_MISMATCH on all ranks with the first place
// where some rank says anything else than rank 0. what: "parameter" 3 is ..
void agree_on(const Collectives& all, const char* what, const std::vector<std::string>& said);

}  // namespace anello::gradient_sync
