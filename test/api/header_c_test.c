/* The public header as C11 with all warnings as errors; and what it promises to a C compiler, at compile time. */
#include <anello/anello.h>
#include <anello/gradient_sync.h>
#include <anello/sampler.h>
#include <anello/stream.h>

#include <stdio.h>

_Static_assert(sizeof(anello_unique_id_t) == 128, "an id is 128 bytes");
_Static_assert(sizeof(anello_float32_int_t) == 8 && sizeof(anello_int32_int_t) == 8, "small pairs have no padding");
_Static_assert(sizeof(anello_float64_int_t) == 16 && sizeof(anello_int64_int_t) == 16, "large pairs end in padding");
_Static_assert(ANELLO_OK == 0, "success is 0");
_Static_assert(ANELLO_VERSION_CODE == ANELLO_VERSION_MAJOR * 10000 + ANELLO_VERSION_MINOR * 100 + ANELLO_VERSION_PATCH,
               "the code is made of the parts");

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "failed: %s\n", what);
}

int main(void) {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  expect(config.size == sizeof config && config.rank == -1 && config.world_size == -1, "ANELLO_CONFIG_INITIALIZER");
  expect(config.url == NULL && config.store == NULL && config.timeout_ms == 0, "ANELLO_CONFIG_INITIALIZER, the rest");
  expect(call.size == sizeof call && call.kind == ANELLO_BARRIER && call.count == 0, "ANELLO_CALL_INITIALIZER");
  expect(anello_version() == ANELLO_VERSION_CODE, "the library is of the header's version");

  /* Alone: no launcher's variables are needed for a world of one. */
  anello_comm_t comm = ANELLO_COMM_NULL;
  int values[3] = {1, 2, 3};
  config.rank = 0;
  config.world_size = 1;
  expect(anello_comm_create(&config, &comm) == ANELLO_OK, "anello_comm_create");
  expect(anello_allreduce(ANELLO_IN_PLACE, values, 3, ANELLO_INT32, ANELLO_SUM, comm) == ANELLO_OK, "anello_allreduce");
  expect(values[0] == 1 && values[1] == 2 && values[2] == 3, "the sum over one rank is its own data");
  expect(anello_comm_destroy(comm) == ANELLO_OK, "anello_comm_destroy");
  return failures == 0 ? 0 : 1;
}
