#include "executor/shadow.h"

#include "executor/operation.h"

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

}  // namespace anello::executor
