/* Writes the time that a few steps of a training loop spend in Anello as a trace for chrome://tracing or
 * ui.perfetto.dev: hooks add a line for each call and rank. Start it with anellorun -np 2 trace trace.json. */
#include "event.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSteps = 4, kLayers = 3, kCount = 100000 };

/* Hooks run on the thread that makes or completes a call. */
static struct {
  pthread_mutex_t mutex;
  char* text; /* events, each followed by a comma */
  size_t bytes, room;
} trace = {PTHREAD_MUTEX_INITIALIZER, NULL, 0, 0};

static void completed(void* context, const anello_hook_info_t* info) {
  char event[kEventBytes];
  (void)context;
  const size_t length = trace_event(event, info);
  if (length == 0) return;
  pthread_mutex_lock(&trace.mutex);
  if (trace.bytes + length > trace.room) {
    char* grown = realloc(trace.text, 2 * trace.room + sizeof event);
    if (grown != NULL) {
      trace.text = grown;
      trace.room = 2 * trace.room + sizeof event;
    }
  }
  if (trace.bytes + length <= trace.room) {
    memcpy(trace.text + trace.bytes, event, length);
    trace.bytes += length;
  }
  pthread_mutex_unlock(&trace.mutex);
}

static int check(anello_result_t result, const char* what, anello_comm_t comm) {
  if (result != ANELLO_OK) fprintf(stderr, "%s: %s\n", what, anello_last_error(comm));
  return result == ANELLO_OK;
}

/* A step: sums the gradients of each layer while the next layer's are computed, then sums a loss that all ranks
 * need. */
static int step(anello_comm_t comm, float* gradients) {
  static const char* const labels[kLayers] = {"layer 2", "layer 1", "layer 0"};
  anello_request_t requests[kLayers];
  float loss = 1;
  for (int layer = 0; layer < kLayers; ++layer) {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.dtype = ANELLO_FLOAT32;
    call.sendbuf = ANELLO_IN_PLACE;
    call.recvbuf = gradients + (size_t)layer * kCount;
    call.count = kCount;
    call.label = labels[layer];
    for (int i = 0; i < kCount; ++i) gradients[layer * kCount + i] = 1;
    if (!check(anello_post(comm, &call, &requests[layer]), labels[layer], comm)) return 0;
  }
  return check(anello_wait_all(kLayers, requests, NULL), "anello_wait_all", comm) &&
         check(anello_allreduce(ANELLO_IN_PLACE, &loss, 1, ANELLO_FLOAT32, ANELLO_AVG, comm), "loss", comm) &&
         loss == 1;
}

/* Gathers all ranks' events on rank 0, which writes them. */
static int write_trace(anello_comm_t comm, const char* name) {
  int rank, size, written = 1;
  anello_comm_rank(comm, &rank);
  anello_comm_size(comm, &size);
  size_t *counts = calloc(2 * (size_t)size, sizeof *counts), *displs = counts + size, all = 0;
  if (counts == NULL) return 0;
  counts[rank] = trace.bytes;
  const uint64_t mine = trace.bytes;
  uint64_t* each = calloc((size_t)size, sizeof *each);
  if (each == NULL || !check(anello_allgather(&mine, each, 1, ANELLO_UINT64, comm), "anello_allgather", comm)) return 0;
  for (int r = 0; r < size; ++r) {
    counts[r] = (size_t)each[r];
    displs[r] = all;
    all += counts[r];
  }
  char* text = malloc(all + 1);
  if (text == NULL || !check(anello_gatherv(trace.text, trace.bytes, text, counts, displs, ANELLO_BYTE, 0, comm),
                             "anello_gatherv", comm)) {
    return 0;
  }
  if (rank == 0) {
    FILE* file = fopen(name, "w");
    written = file != NULL && fprintf(file, "{\"traceEvents\": [\n%.*s\n]}\n", (int)(all > 2 ? all - 2 : 0), text) > 0;
    written = file != NULL && fclose(file) == 0 && written;
    printf(written ? "wrote %s\n" : "cannot write %s\n", name);
  }
  free(text);
  free(each);
  free(counts);
  return written;
}

int main(int argc, char** argv) {
  anello_comm_t comm;
  anello_hooks_t hooks = ANELLO_HOOKS_INITIALIZER;
  float* gradients = malloc(sizeof(float) * kLayers * kCount);
  int good = gradients != NULL && check(anello_comm_create(NULL, &comm), "anello_comm_create", ANELLO_COMM_NULL);
  if (!good) return 1;
  hooks.after = completed;
  good = check(anello_set_hooks(&hooks), "anello_set_hooks", ANELLO_COMM_NULL);
  for (int i = 0; good && i < kSteps; ++i) good = step(comm, gradients);
  good = check(anello_set_hooks(NULL), "anello_set_hooks", ANELLO_COMM_NULL) && good;
  good = good && write_trace(comm, argc > 1 ? argv[1] : "trace.json");
  good = check(anello_comm_destroy(comm), "anello_comm_destroy", ANELLO_COMM_NULL) && good;
  free(trace.text);
  free(gradients);
  return good ? 0 : 1;
}
