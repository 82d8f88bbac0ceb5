/* Traces a program that knows nothing of it: preloaded, it writes the events of each process to a file
 * anello-trace-PID.events in the process's folder. docs/seeing-a-job.md says how to put them together. */
#include "event.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Hooks run on the thread that makes or completes a call. The file is made at the first one: launchers and shells are
 * preloaded too. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static FILE* file;

static void completed(void* context, const anello_hook_info_t* info) {
  char event[kEventBytes], name[64];
  const size_t length = trace_event(event, info);
  (void)context;
  snprintf(name, sizeof name, "anello-trace-%d.events", (int)getpid());
  pthread_mutex_lock(&mutex);
  if (file == NULL) file = fopen(name, "w");
  if (file != NULL) fwrite(event, 1, length, file);
  pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void begin(void) {
  anello_hooks_t hooks = ANELLO_HOOKS_INITIALIZER;
  hooks.after = completed;
  if (anello_set_hooks(&hooks) != ANELLO_OK) fprintf(stderr, "no trace: %s\n", anello_last_error(ANELLO_COMM_NULL));
}
