#pragma once
// The instruction-set levels for which the reductions are built, by name, for tests and measurements. All other code
// calls reducer(dtype, op), which takes the best level of this processor.
#include "kernels/reduce.h"

#include <vector>

namespace anello::kernels {

enum class Level { plain, avx2, avx512, neon };

inline constexpr int kDtypes = 0
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) +1
#include "base/dtypes.def"
#undef ANELLO_DTYPE
    ;
inline constexpr int kOps = 0
#define ANELLO_OP(enumerator, name, classes) +1
#include "base/ops.def"
#undef ANELLO_OP
    ;

struct ReducerTable {
  Reducer rows[kDtypes][kOps];  // by enumerator, both counted from 0
};

const char* level_name(Level level);
// The levels that are built in and usable on this processor, slowest first; plain is always among them.
const std::vector<Level>& usable_levels();
// Requires: level is usable, makes_sense(dtype, op).
const Reducer& reducer(Level level, anello_dtype_t dtype, anello_op_t op);

// One for each file reduce_<level>.cpp.
extern const ReducerTable kPlainReducers;
extern const ReducerTable kAvx2Reducers;
extern const ReducerTable kAvx512Reducers;
extern const ReducerTable kNeonReducers;

}  // namespace anello::kernels
