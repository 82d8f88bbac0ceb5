// Writes the kernels of one image, one per line, for the sources that expand them: the device's source, and the tests'
// source for the host. The build of Anello runs it.
#include "kernels/cuda/runs_as.h"

#include <cstdio>
#include <cstdlib>

namespace {

using namespace anello;
using namespace anello::kernels::cuda;

struct Named {
  int value;
  const char* enumerator;
  const char* name;
};
constexpr Named kDtypes[] = {
#define ANELLO_DTYPE(enumerator, name, storage, accumulator, type_class) {enumerator, #enumerator, #name},
#include "base/dtypes.def"
#undef ANELLO_DTYPE
};
constexpr Named kOps[] = {
#define ANELLO_OP(enumerator, name, classes) {enumerator, #enumerator, #name},
#include "base/ops.def"
#undef ANELLO_OP
};

const Named& named(anello_dtype_t dtype) {
  const Named* one = kDtypes;
  while (one->value != dtype) ++one;
  return *one;
}

void list(const Named& dtype, const Named& op, int image) {
  const auto type = static_cast<anello_dtype_t>(dtype.value);
  if (image_of(type) != image || !is_kernel(type, static_cast<anello_op_t>(op.value))) return;
  for (const int granule : kGranules) {
    if (!has_granule(alignment(type), granule)) continue;
    std::printf("ANELLO_KERNEL(anello_%s_%s_%d, %s, %s, %d)\n", dtype.name, op.name, granule, dtype.enumerator,
                op.enumerator, granule);
    if (!has_wide(type, static_cast<anello_op_t>(op.value))) continue;
    std::printf("ANELLO_WIDE_KERNEL(anello_%s_%s_wide_%d, %s, %s, %d)\n", dtype.name, op.name, granule,
                dtype.enumerator, op.enumerator, granule);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: list_kernels IMAGE\n");
    return 2;
  }
  const int image = std::atoi(argv[1]);
  for (const Named& dtype : kDtypes) {
    for (const Named& op : kOps) list(dtype, op, image);
  }
  if (image != image_of(ANELLO_BYTE)) return 0;
  for (const int granule : kGranules) {
    if (has_granule(1, granule)) std::printf("ANELLO_COPY_KERNEL(anello_copy_%d, %d)\n", granule, granule);
  }
  for (const MovePair& pair : kMoves) {
    const Named& from = named(pair.from);
    const Named& to = named(pair.to);
    std::printf("ANELLO_MOVE_KERNEL(anello_move_%s_%s, %s, %s)\n", from.name, to.name, from.enumerator, to.enumerator);
  }
}
