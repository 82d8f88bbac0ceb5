// The level that every processor of the architecture can run.
#include "kernels/reduce_loops.h"

namespace anello::kernels {

constinit const ReducerTable kPlainReducers = all_reducers<NoPack>();

}  // namespace anello::kernels
