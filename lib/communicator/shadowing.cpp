#include "communicator/shadowing.h"

#include "base/dtype.h"
#include "base/kind.h"
#include "base/label.h"
#include "base/log.h"
#include "base/text.h"
#include "communicator/call_parts.h"
#include "device/exported.h"
#include "device/reductions.h"
#include "device/space.h"
#include "executor/group.h"
#include "executor/routes.h"
#include "executor/stream_calls.h"
#include "kernels/cuda/runs_as.h"

#include <algorithm>
#include <utility>

namespace anello {
namespace {

constexpr std::size_t kAlignment = 4096;  // as a caller's large buffers have it

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The device where a buffer lies; -1: on the host, or nowhere.
int device_of(const anello_call_t& call, const std::byte* buffer, std::size_t bytes) {
  if (bytes == 0 || !device::is_on_device(buffer)) return -1;
  try {
    return device::space_of(buffer, bytes).device;
  } catch (const Error& why_not) {
    const char* const name = is_message(call.kind) || call.kind == ANELLO_BROADCAST ? "buffer"
                             : buffer == call.sendbuf                               ? "sendbuf"
                                                                                    : "recvbuf";
    throw Error(why_not.code(),
                text("anello_", kind_name(call.kind), Label(call.label).quoted(), ": ", name, " ", why_not.text()));
  }
}

}  // namespace

bool is_on_device(const anello_call_t& call) {
  return device::is_on_device(call.sendbuf) || device::is_on_device(call.recvbuf);
}

void shadow_buffers(executor::Operation& operation, const anello_call_t& call, int rank, int size, InPlace place,
                    executor::StreamLine* line) {
  using executor::Shadow;
  const CallParts parts = parts_of(call, rank, size, place);
  const std::size_t element = dtype_bytes(call.dtype);  // the operation's are wider in a premultiplied sum of 16 bits
  std::size_t input_bytes = extent_of(parts.reads) * element;
  std::size_t output_bytes = extent_of(parts.writes) * element;
  const bool is_one = operation.input == operation.output;
  if (is_one) input_bytes = output_bytes = std::max(input_bytes, output_bytes);
  const int input_device = device_of(call, operation.input, input_bytes);
  const int output_device = is_one ? input_device : device_of(call, operation.output, output_bytes);
  auto shadow = std::make_unique<Shadow>();
  shadow->line = line;
  if (input_device < 0 && output_device < 0) {
    if (line != nullptr) operation.shadow = std::move(shadow);
    return;
  }
  if (input_device >= 0 && output_device >= 0 && input_device != output_device) {
    throw Error(ANELLO_ERR_ARGUMENT,
                text("anello_", kind_name(call.kind), ": sendbuf is on device ", input_device,
                     " and recvbuf on device ", output_device, "; both buffers of a call must be on one device"));
  }
  const int number = std::max(input_device, output_device);
  if (line != nullptr && number != line->device.number()) {
    throw Error(ANELLO_ERR_ARGUMENT, text("anello_", kind_name(call.kind), ": the buffers are on device ", number,
                                          " and the stream on device ", line->device.number()));
  }

  shadow->device = number;
  const std::size_t input_room = input_device >= 0 ? aligned(input_bytes) : 0;
  const std::size_t output_room = output_device >= 0 && !is_one ? aligned(output_bytes) : 0;
  shadow->bytes = input_room + output_room;
  shadow->output_at = is_one ? 0 : input_room;
  if (input_device >= 0) {
    shadow->device_input = operation.input;
    auto* const from = const_cast<std::byte*>(operation.input);
    for (const CallPart& part : parts.reads)
      shadow->reads.push_back({from + part.at * element, part.at * element, part.count * element});
  }
  if (output_device >= 0) {
    shadow->device_output = operation.output;
    for (const CallPart& part : parts.writes)
      shadow->writes.push_back(
          {operation.output + part.at * element, shadow->output_at + part.at * element, part.count * element});
  }
  operation.shadow = std::move(shadow);
}

namespace {

using executor::Operation, executor::Shadow;

// Whether a buffer is on the device, where the type's alignment lets kernels use it.
bool is_usable(const Operation& operation, const void* buffer, std::size_t bytes, bool is_there) {
  if (buffer == nullptr || bytes == 0) return true;
  if (!is_there || !kind_reduces(operation.kind)) return is_there;
  return reinterpret_cast<std::uintptr_t>(buffer) % kernels::cuda::alignment(operation.dtype) == 0;
}

// Of a buffer that ranks of other processes can open; none: why_not says why they cannot.
transport::RemoteAddress address_for_peers(const Operation& operation, const device::Device& device, const void* buffer,
                                           std::size_t bytes, std::string* why_not) {
  if (buffer == nullptr || bytes == 0) return {};
  const auto with = operation.group->by_address ? device::Sharing::threads : device::Sharing::processes;
  const device::Exported found = device::export_buffer(device, buffer, bytes, with);
  if (found.spot.region == 0) *why_not = found.why_not;
  return {reinterpret_cast<std::uintptr_t>(buffer), found.spot.region, found.spot.offset};
}

// Copies to several places are kernels, too.
struct Kernels {
  anello_dtype_t dtype;
  anello_op_t op;
};
Kernels kernels_of(anello_kind_t kind, anello_dtype_t dtype, anello_op_t op) {
  return kind_reduces(kind) ? Kernels{dtype, op} : Kernels{ANELLO_BYTE, ANELLO_SUM};
}

void offer(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  const executor::Plans& plans = *operation.plans;
  if (!operation.announces() || !plans.has_device_plans() || operation.custom != nullptr) return;
  const bool has_input = operation.input_inside ? shadow.device_output != nullptr : shadow.device_input != nullptr;
  if (!is_usable(operation, operation.own_input(), operation.input_bytes, has_input)) return;
  if (!is_usable(operation, operation.output, operation.output_bytes, shadow.device_output != nullptr)) return;
  const device::Device& device = device::Device::of(shadow.device);
  const Kernels kernels = kernels_of(operation.kind, operation.dtype, operation.op);
  if (shadow.line == nullptr) device::load_reduction(device, kernels.dtype, kernels.op);
  if (!device::why_no_reduction(device, kernels.dtype, kernels.op).empty()) return;
  std::string why_not;
  executor::Announced own;
  try {
    own.input = address_for_peers(operation, device, operation.own_input(), operation.input_bytes, &why_not);
    own.output = address_for_peers(operation, device, operation.output, operation.output_bytes, &why_not);
  } catch (const Error& of_driver) {
    why_not = of_driver.text();
  }
  if (!why_not.empty()) return log::debug(-1, "memory of device ", shadow.device, " goes through the host: ", why_not);
  shadow.offer = own;
  shadow.offer_again(operation);
}

// A message between hosts, which adapters may move from or to this device. A receive keeps host memory, too: its
// message may come otherwise.
void offer_to_adapters(Operation& operation, std::size_t bytes) {
  const executor::Group& group = *operation.group;
  const executor::Routes& routes = group.parts.routes;
  Shadow& shadow = *operation.shadow;
  const bool is_send = operation.kind == ANELLO_SEND;
  auto* const at = is_send ? const_cast<std::byte*>(operation.input) : operation.output;
  const memory::Buffer buffer{at, bytes, shadow.space(), {}};
  if (is_send) {
    transport::RemoteMemory* const far = routes.far_memory_of(group.ranks[std::size_t(operation.peer)]);
    if (far != nullptr && far->reaches_on_device(buffer)) shadow.offer_again(operation);
    return;
  }
  for (transport::RemoteMemory* const memory : routes.memories())
    shadow.may_be_brought = shadow.may_be_brought || (memory->is_far() && memory->reaches_on_device(buffer));
}

// A message that its receiver may get from this device, or store there.
void offer_message(Operation& operation) {
  const executor::Group& group = *operation.group;
  const std::size_t bytes = operation.count * operation.element_bytes;
  if (operation.kind == ANELLO_PROBE || bytes <= messaging::kMostEagerBytes) return;
  if (operation.peer == ANELLO_RANK_NULL || operation.peer == group.rank) return;
  if (!group.board) return offer_to_adapters(operation, bytes);
  if (operation.kind != ANELLO_SEND) return;
  Shadow& shadow = *operation.shadow;
  std::string why_not;
  try {
    shadow.offer.input =
        address_for_peers(operation, device::Device::of(shadow.device), operation.input, bytes, &why_not);
  } catch (const Error& of_driver) {
    why_not = of_driver.text();
  }
  if (!why_not.empty()) {
    shadow.offer = {};
    return log::debug(-1, "memory of device ", shadow.device, " goes through the host: ", why_not);
  }
  shadow.offer_again(operation);
}

}  // namespace

void load_kernels(anello_kind_t kind, anello_dtype_t dtype, anello_op_t op, const device::Device& device) {
  const Kernels kernels = kernels_of(kind, dtype, op);
  device::load_reduction(device, kernels.dtype, kernels.op);
}

void offer_or_shadow(Operation& operation) {
  Shadow& shadow = *operation.shadow;
  if (shadow.device < 0) return;
  is_message(operation.kind) ? offer_message(operation) : offer(operation);
  if (shadow.way == Shadow::Way::offered) return;
  if (shadow.line != nullptr) shadow.base = executor::StreamCalls::room_in(*shadow.line, shadow.bytes);
  shadow.move_to_host(operation);
}

}  // namespace anello
