#include "communicator/shadowing.h"

#include "base/dtype.h"
#include "base/kind.h"
#include "base/label.h"
#include "base/text.h"
#include "communicator/call_parts.h"
#include "device/space.h"
#include "executor/stream_calls.h"

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
  if (line != nullptr) {
    shadow->base = executor::StreamCalls::room_in(*line, input_room + output_room);
  } else {
    shadow->own = device::PinnedBlock::take(input_room + output_room);
    shadow->base = shadow->own.data();
  }
  const std::size_t output_at = is_one ? 0 : input_room;
  if (input_device >= 0) {
    auto* const from = const_cast<std::byte*>(operation.input);
    for (const CallPart& part : parts.reads)
      shadow->reads.push_back({from + part.at * element, part.at * element, part.count * element});
    operation.input = shadow->base;
  }
  if (output_device >= 0) {
    for (const CallPart& part : parts.writes)
      shadow->writes.push_back(
          {operation.output + part.at * element, output_at + part.at * element, part.count * element});
    // Of a shorter message, what was there comes back.
    if (line != nullptr && call.kind == ANELLO_RECV) shadow->reads = shadow->writes;
    operation.output = shadow->base + output_at;
  }
  operation.shadow = std::move(shadow);
}

}  // namespace anello
