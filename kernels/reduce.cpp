#include "kernels/reduce.h"

#include "kernels/reduce_levels.h"

#ifdef ANELLO_X86_LEVELS
#include <cpuid.h>
#endif

namespace anello::kernels {
namespace {

const ReducerTable& table_of(Level level) {
#ifdef ANELLO_NEON_LEVEL
  if (level == Level::neon) return kNeonReducers;
#endif
#ifdef ANELLO_X86_LEVELS
  if (level == Level::avx512) return kAvx512Reducers;
  if (level == Level::avx2) return kAvx2Reducers;
#endif
  (void)level;
  return kPlainReducers;
}

#ifdef ANELLO_X86_LEVELS
// Not all compilers know F16C by name. AVX2 shows whether the system saves its registers.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::vector<Level> find_usable_levels() {
  std::vector<Level> levels = {Level::plain};
#ifdef ANELLO_X86_LEVELS
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
  if (avx2) levels.push_back(Level::avx2);
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    levels.push_back(Level::avx512);
  }
#endif
#ifdef ANELLO_NEON_LEVEL
  levels.push_back(Level::neon);
#endif
  return levels;
}

}  // namespace

const char* level_name(Level level) {
  switch (level) {
    case Level::plain: return "plain";
    case Level::avx2: return "avx2";
    case Level::avx512: return "avx512";
    case Level::neon: return "neon";
  }
  return "unknown";
}

const std::vector<Level>& usable_levels() {
  // Leaked on purpose: threads that outlive static destructors read it.
  static const auto* const levels = new std::vector<Level>(find_usable_levels());
  return *levels;
}

const Reducer& reducer(Level level, anello_dtype_t dtype, anello_op_t op) { return table_of(level).rows[dtype][op]; }

const Reducer& reducer(anello_dtype_t dtype, anello_op_t op) {
  static const ReducerTable& best = table_of(usable_levels().back());
  return best.rows[dtype][op];
}

}  // namespace anello::kernels
