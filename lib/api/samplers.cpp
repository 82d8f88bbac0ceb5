#include "api/last_error.h"
#include "base/text.h"
#include "sampler/shard.h"

#include <anello/sampler.h>

using namespace anello;
using namespace anello::api;

namespace {

sampler::Shard shard_of(const anello_sampler_t* given) {
  const auto refuse = [](const std::string& what) { throw Error(ANELLO_ERR_ARGUMENT, what); };
  if (given == nullptr) refuse("sampler is NULL");
  if (given->size != sizeof *given)
    refuse(text("anello_sampler_t.size is ", given->size, ", not ", sizeof *given,
                "; begin with ANELLO_SAMPLER_INITIALIZER"));
  if (given->samples < 0) refuse(text("anello_sampler_t.samples is ", given->samples));
  if (given->world_size < 1) refuse(text("anello_sampler_t.world_size is ", given->world_size));
  if (given->rank < 0 || given->rank >= given->world_size) {
    refuse(text("anello_sampler_t.rank is ", given->rank, ", but world_size ", given->world_size));
  }
  return {given->samples, given->rank, given->world_size, given->shuffle != 0, given->drop_last != 0, given->seed};
}

}  // namespace

extern "C" {

anello_result_t anello_sampler_count(const anello_sampler_t* sampler, size_t* count) {
  return guard(ANELLO_COMM_NULL, [&] {
    const sampler::Shard shard = shard_of(sampler);
    if (count == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "count is NULL");
    *count = shard.count();
    return ANELLO_OK;
  });
}

anello_result_t anello_sampler_indices(const anello_sampler_t* sampler, uint64_t epoch, int64_t* indices) {
  return guard(ANELLO_COMM_NULL, [&] {
    const sampler::Shard shard = shard_of(sampler);
    if (indices == nullptr && shard.count() > 0) throw Error(ANELLO_ERR_ARGUMENT, "indices is NULL");
    shard.indices(epoch, indices);
    return ANELLO_OK;
  });
}

}  // extern "C"
