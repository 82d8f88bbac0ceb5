// Probes, and the messages that they claimed. The handle of such a message keeps its communicator's memory, not its
// membership.
#include "api/arguments.h"
#include "api/call_group.h"
#include "api/call_of.h"
#include "api/tables.h"
#include "base/text.h"

#include <optional>

using namespace anello;
using namespace anello::api;

namespace {

struct Claimed {
  std::shared_ptr<Communicator> communicator;
  anello_comm_t comm = ANELLO_COMM_NULL;
  std::uint32_t claim = 0;
  int source = ANELLO_RANK_NULL;
  int tag = ANELLO_ANY_TAG;
};

HandleTable<Claimed, Counting::of_all>& messages() {
  static HandleTable<Claimed, Counting::of_all>* const table =
      new HandleTable<Claimed, Counting::of_all>;  // leaked: in use until the last static destructor
  return *table;
}

// Throws the error of an invalid call.
void require_valid(const anello_call_t& call, const Communicator& communicator) {
  if (const Error refused = check(call, communicator)) throw refused;
}

anello_result_t probe(const char* name, int source, int tag, anello_comm_t comm, bool waits, int* flag, bool claims,
                      anello_message_t* message, anello_status_t* status) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) -> anello_result_t {
    if (waits) refuse_in_group(name);
    const anello_call_t call = call_of(ANELLO_PROBE, nullptr, nullptr, 0, ANELLO_UINT8, ANELLO_SUM, source, tag);
    require_valid(call, *communicator);
    if (!waits && flag == nullptr) throw Error(ANELLO_ERR_ARGUMENT, text(name, ": flag is NULL"));
    if (claims && message == nullptr) throw Error(ANELLO_ERR_ARGUMENT, text(name, ": message is NULL"));
    std::optional<Communicator::Probed> found;
    anello_status_t came{-1, -1, 0};
    const auto look = [&] {
      found = communicator->probe(call, waits, claims);
      if (found) came = found->status;
      return Error();
    };
    try {
      waits ? with_hooks(comm, communicator, call, came, look) : look();
    } catch (const Error& error) {
      return failed(comm, error, {ANELLO_PROBE, -1, Label()});
    }
    if (!waits) *flag = found ? 1 : 0;
    if (!found) return ANELLO_OK;
    if (claims) {
      Claimed claimed{communicator, comm, found->claim, found->status.source, found->status.tag};
      *message = reinterpret_cast<anello_message_t>(messages().add(std::move(claimed)));
    }
    if (status != nullptr) *status = came;
    return ANELLO_OK;
  });
}

// Posts the receive of *message; on failure *message is unchanged.
anello_result_t receive(const char* name, void* buffer, std::size_t count, anello_dtype_t dtype,
                        anello_message_t* message, anello_request_t* request) {
  return guard(ANELLO_COMM_NULL, [&]() -> anello_result_t {
    refuse_here();
    if (message == nullptr || request == nullptr) {
      throw Error(ANELLO_ERR_ARGUMENT, text(name, ": ", message == nullptr ? "message" : "request", " is NULL"));
    }
    const auto handle = reinterpret_cast<std::uintptr_t>(*message);
    anello_call_t call = call_of(ANELLO_RECV, nullptr, buffer, count, dtype);
    {
      const HandleTable<Claimed, Counting::of_all>::Use use(messages(), handle);
      if (!use) throw Error(ANELLO_ERR_STATE, "the message was received before or never existed");
      call.peer = use->source;
      call.tag = use->tag;
      require_valid(call, *use->communicator);
    }
    auto claimed = messages().remove(handle, [](const Claimed&) {});
    if (!claimed) throw Error(ANELLO_ERR_STATE, "the message was received by another thread");
    *message = ANELLO_MESSAGE_NULL;
    *request = request_of(post_call(claimed->comm, claimed->communicator, call, claimed->claim), claimed->communicator,
                          claimed->comm);
    return ANELLO_OK;
  });
}

}  // namespace

extern "C" {

anello_result_t anello_probe(int source, int tag, anello_comm_t comm, anello_status_t* status) {
  return probe("anello_probe", source, tag, comm, true, nullptr, false, nullptr, status);
}

anello_result_t anello_iprobe(int source, int tag, anello_comm_t comm, int* flag, anello_status_t* status) {
  return probe("anello_iprobe", source, tag, comm, false, flag, false, nullptr, status);
}

anello_result_t anello_mprobe(int source, int tag, anello_comm_t comm, anello_message_t* message,
                              anello_status_t* status) {
  return probe("anello_mprobe", source, tag, comm, true, nullptr, true, message, status);
}

anello_result_t anello_improbe(int source, int tag, anello_comm_t comm, int* flag, anello_message_t* message,
                               anello_status_t* status) {
  return probe("anello_improbe", source, tag, comm, false, flag, true, message, status);
}

anello_result_t anello_imrecv(void* buffer, size_t count, anello_dtype_t dtype, anello_message_t* message,
                              anello_request_t* request) {
  return receive("anello_imrecv", buffer, count, dtype, message, request);
}

anello_result_t anello_mrecv(void* buffer, size_t count, anello_dtype_t dtype, anello_message_t* message,
                             anello_status_t* status) {
  anello_request_t request = ANELLO_REQUEST_NULL;
  const anello_result_t posted = receive("anello_mrecv", buffer, count, dtype, message, &request);
  if (posted != ANELLO_OK) return posted;
  if (CallGroup* const group = CallGroup::current()) {
    group->add(request, status);
    return ANELLO_OK;
  }
  return anello_wait(&request, status);
}

}  // extern "C"
