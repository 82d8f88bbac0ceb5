#pragma once
// Operations of the caller's own, over elements of any size: one that depends on the order of ranks, one that does not.
#include <anello/anello.h>

#include <cstddef>

namespace anello::model {

enum class OwnOp { none, ordered, commuting };

anello_op_t handle_of(OwnOp op);
// into[i] = left[i] op right[i]; elements of `bytes` each.
void combine(OwnOp op, std::size_t bytes, unsigned char* into, const unsigned char* left, const unsigned char* right,
             std::size_t count);

}  // namespace anello::model
