#pragma once
// How many of a communicator's calls ran on devices, as anello_explain tells.
#include <anello/anello.h>

#include <string>

namespace anello::test {

inline int calls_on_devices(anello_comm_t comm) {
  anello_call_t call = ANELLO_CALL_INITIALIZER;
  call.kind = ANELLO_ALLREDUCE;
  call.dtype = ANELLO_FLOAT32;
  call.count = 1;
  char text[16384];
  std::size_t length = 0;
  if (anello_explain(comm, &call, text, sizeof text, &length) != ANELLO_OK) return -1;
  const std::string json(text, length);
  const std::size_t at = json.find("\"calls\":", json.find("\"on_devices\""));
  return at == std::string::npos ? -1 : std::stoi(json.substr(at + 8));
}

}  // namespace anello::test
