#include "executor/shadow.h"

#include "device/imported.h"
#include "executor/operation.h"
#include "executor/stream_calls.h"

namespace anello::executor {

void Shadow::offer_again(Operation& operation) {
  if (device_input != nullptr) operation.input = device_input;
  if (device_output != nullptr) operation.output = device_output;
  way = Way::offered;
}

void Shadow::move_to_host(Operation& operation) {
  if (base == nullptr) {
    own = device::PinnedBlock::take(bytes);
    base = own.data();
  }
  if (device_input != nullptr) operation.input = base;
  if (device_output != nullptr) operation.output = base + output_at;
  way = Way::host;
  operation.forget_places();
}

void Shadow::keep_for_ever() {
  own.retire(true);
  if (direct.kept != nullptr) device::Imported::keep_for_ever(direct.kept);
  if (line != nullptr) line->is_copying = true;
}

}  // namespace anello::executor
