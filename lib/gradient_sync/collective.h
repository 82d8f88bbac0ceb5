#pragma once
// Calls Anello's C API and turns failures into exceptions.
#include "base/error.h"
#include "base/text.h"

#include <anello/anello.h>
#include <anello/stream.h>

#include <cstdint>
#include <string>

namespace anello::gradient_sync {

// Throws the error of `result` from a call on comm; what: the purpose of the call.
inline void check(anello_comm_t comm, anello_result_t result, const std::string& what) {
  if (result != ANELLO_OK) throw Error(result, what + ": " + anello_last_error(comm));
}

// Collectives of one communicator that share a deadline.
class Collectives {
 public:
  explicit Collectives(anello_comm_t comm) : comm_(comm) {}

  anello_comm_t comm() const { return comm_; }
  void set_timeout(std::int64_t timeout_ms) { timeout_ms_ = timeout_ms; }  // 0: the communicator's

  // request nullptr: waits.
  void allreduce(void* data, std::size_t count, anello_dtype_t dtype, anello_op_t op, const std::string& what,
                 anello_request_t* request = nullptr, const char* label = nullptr) const {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.op = op;
    call.label = label;
    post(call, ANELLO_IN_PLACE, data, count, dtype, what, request);
  }
  void allreduce_on(void* stream, void* data, std::size_t count, anello_dtype_t dtype, anello_op_t op,
                    const std::string& what, const char* label) const {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLREDUCE;
    call.op = op;
    call.label = label;
    describe(call, ANELLO_IN_PLACE, data, count, dtype);
    check(comm_, anello_post_on(comm_, &call, stream), what);
  }
  void broadcast(void* data, std::size_t count, anello_dtype_t dtype, int root, const std::string& what) const {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_BROADCAST;
    call.peer = root;
    post(call, data, data, count, dtype, what, nullptr);
  }
  // Works in place on count elements of each rank.
  void allgather(void* data, std::size_t count, anello_dtype_t dtype, const std::string& what,
                 anello_request_t* request = nullptr) const {
    anello_call_t call = ANELLO_CALL_INITIALIZER;
    call.kind = ANELLO_ALLGATHER;
    post(call, ANELLO_IN_PLACE, data, count, dtype, what, request);
  }

 private:
  void describe(anello_call_t& call, const void* send, void* receive, std::size_t count, anello_dtype_t dtype) const {
    call.dtype = dtype;
    call.sendbuf = send;
    call.recvbuf = receive;
    call.count = count;
    call.timeout_ms = timeout_ms_;
  }
  void post(anello_call_t& call, const void* send, void* receive, std::size_t count, anello_dtype_t dtype,
            const std::string& what, anello_request_t* request) const {
    describe(call, send, receive, count, dtype);
    check(comm_, anello_post(comm_, &call, request), what);
  }

  anello_comm_t comm_;
  std::int64_t timeout_ms_ = 0;
};

}  // namespace anello::gradient_sync
