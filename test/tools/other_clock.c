/* To be preloaded: the clocks of a host that is not as it should be. ANELLO_TEST_CLOCK_AHEAD: seconds that the clock of
   logs is ahead; ANELLO_TEST_CLOCK_UNSYNCHRONIZED, ANELLO_TEST_CLOCK_SLOW: set or not. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  const char* const ahead = getenv("ANELLO_TEST_CLOCK_AHEAD");
  if (getenv("ANELLO_TEST_CLOCK_SLOW") != NULL) {
    for (int i = 0; i < 100; ++i) syscall(SYS_clock_gettime, clock, now);
  }
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME && ahead != NULL) now->tv_sec += atoi(ahead);
  return result;
}

int adjtimex(struct timex* state) {
  const int result = (int)syscall(SYS_adjtimex, state);
  if (getenv("ANELLO_TEST_CLOCK_UNSYNCHRONIZED") != NULL) {
    state->status |= STA_UNSYNC;
    return TIME_ERROR;
  }
  state->status &= ~STA_UNSYNC;
  return result < 0 ? result : TIME_OK;
}
