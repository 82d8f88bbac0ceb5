/* A call that has completed, as an event of chrome://tracing and ui.perfetto.dev. */
#ifndef TRACE_EVENT_H
#define TRACE_EVENT_H

#include <anello/anello.h>

#include <stdio.h>

enum { kEventBytes = 1024 };

/* Writes a line that ends with a comma, and returns its length; 0: it has no room. */
static size_t trace_event(char text[kEventBytes], const anello_hook_info_t* info) {
  /* "X": begin and length, in microseconds. A process of the picture is a rank, and its rows are communicator and kind
   * of call. */
  const int length = snprintf(
      text, kEventBytes,
      "{\"name\": \"%s\", \"cat\": \"anello\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, \"pid\": %d, \"tid\": %d,"
      " \"args\": {\"label\": \"%s\", \"sequence\": %lld, \"count\": %zu, \"bytes\": %zu, \"dtype\": \"%s\","
      " \"algorithm\": \"%s\", \"transport\": \"%s\", \"result\": \"%s\"}},\n",
      info->label[0] != '\0' ? info->label : info->name, (double)info->posted_ns / 1e3,
      (double)(info->completed_ns - info->posted_ns) / 1e3, info->rank, info->blocking ? 0 : 1 + (int)info->kind,
      info->label, (long long)info->sequence, info->count, info->bytes, anello_dtype_name(info->dtype),
      info->algorithm != NULL ? info->algorithm : "", info->transport, anello_result_name(info->result));
  return length < 0 || length >= kEventBytes ? 0 : (size_t)length;
}

#endif
