/* A rank that meets the others as its environment says, or over a key-value store of files in STORE_FOLDER, as a
   framework's store would. It prints the sum of all ranks' ones, or the error. */
#define _POSIX_C_SOURCE 200809L
#include <anello/anello.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void path_of(char* path, size_t bytes, const char* folder, const char* key, const char* end) {
  char flat[128];
  snprintf(flat, sizeof flat, "%s", key);
  for (char* c = flat; *c != '\0'; ++c) *c = *c == '/' ? '-' : *c;
  snprintf(path, bytes, "%s/%s%s", folder, flat, end);
}

static int put(void* folder, const char* key, const void* value, size_t bytes) {
  char path[512], unfinished[512];
  path_of(path, sizeof path, folder, key, "");
  path_of(unfinished, sizeof unfinished, folder, key, ".new");
  FILE* file = fopen(unfinished, "w");
  if (file == NULL) return errno;
  const int wrong = fwrite(value, 1, bytes, file) != bytes;
  return fclose(file) != 0 || wrong || rename(unfinished, path) != 0 ? EIO : 0;
}

static int get(void* folder, const char* key, void* value, size_t* bytes, int64_t timeout_ms) {
  char path[512];
  path_of(path, sizeof path, folder, key, "");
  for (;; timeout_ms -= 5) {
    FILE* file = fopen(path, "r");
    if (file != NULL) {
      *bytes = fread(value, 1, *bytes, file);
      fclose(file);
      return 0;
    }
    if (timeout_ms <= 0) return ENOENT;
    const struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
  }
}

int main(void) {
  anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  anello_store_t store = {getenv("STORE_FOLDER"), put, get};
  if (store.context != NULL) config.store = &store;
  config.url = getenv("URL");
  if (getenv("TIMEOUT_MS") != NULL) config.timeout_ms = atoi(getenv("TIMEOUT_MS"));
  anello_comm_t comm;
  float sum = 1;
  if (anello_comm_create(&config, &comm) != ANELLO_OK) {
    printf("error: %s\n", anello_last_error(ANELLO_COMM_NULL));
    return 1;
  }
  if (anello_allreduce(ANELLO_IN_PLACE, &sum, 1, ANELLO_FLOAT32, ANELLO_SUM, comm) != ANELLO_OK) {
    printf("error: %s\n", anello_last_error(comm));
    return 1;
  }
  printf("sum %g\n", sum);
  return anello_comm_destroy(comm) != ANELLO_OK;
}
