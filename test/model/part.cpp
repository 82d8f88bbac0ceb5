#include "model/part.h"

#include "model/random.h"
#include "support/device_memory.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace anello::model {
namespace {

std::string hex(const unsigned char* at, std::size_t bytes) {
  std::ostringstream out;
  for (std::size_t i = bytes; i-- > 0;) out << "0123456789abcdef"[at[i] >> 4] << "0123456789abcdef"[at[i] & 15];
  return out.str();
}

}  // namespace

std::unique_ptr<Part> Part::of_collective(const Step& step, int rank, int size) {
  std::unique_ptr<Part> part(new Part(step));
  part->rank_ = rank;
  part->size_ = size;
  part->shape_ = shape(step, rank, size);
  part->element_ = anello_dtype_size(step.dtype);
  part->call_.kind = step.kind;
  part->call_.peer = step.root;
  part->place_buffers();
  return part;
}

std::unique_ptr<Part> Part::of_send(const Step& step, std::size_t message) {
  std::unique_ptr<Part> part(new Part(step));
  const Message& sent = step.messages[message];
  part->rank_ = sent.from;
  part->element_ = anello_dtype_size(step.dtype);
  part->shape_.input = sent.count;
  part->shape_.given.push_back({0, sent.count, 0, int(message), false});
  part->call_.kind = ANELLO_SEND;
  part->call_.peer = sent.to;
  part->call_.tag = sent.tag;
  part->place_buffers();
  part->call_.count = sent.count;
  return part;
}

std::unique_ptr<Part> Part::of_receive(const Step& step, std::size_t receive) {
  std::unique_ptr<Part> part(new Part(step));
  const Receive& wanted = step.receives[receive];
  const Message& sent = step.messages[wanted.message];
  part->rank_ = sent.to;
  part->element_ = anello_dtype_size(step.dtype);
  part->shape_.output = wanted.room;
  part->call_.kind = ANELLO_RECV;
  part->call_.peer = wanted.any_source ? ANELLO_ANY_SOURCE : sent.from;
  part->call_.tag = wanted.tag;
  part->place_buffers();
  part->call_.count = wanted.room;
  if (step.action != Action::crowd) part->came(wanted.message);
  return part;
}

void Part::came(std::size_t message) {
  message_ = &step_.messages[message];
  status_ = {message_->from, message_->tag, message_->count};
  const bool fits = message_->count <= shape_.output;
  expected_ = fits ? ANELLO_OK : ANELLO_ERR_TRUNCATE;
  shape_.rest_unspecified = !fits;
  shape_.results.clear();
  if (fits) shape_.results.push_back({0, message_->count, 0, int(message), false});
  if (expected_output_.empty()) return;
  // The buffer was filled before one could know.
  for (const Piece& piece : shape_.results)
    lay_result(expected_output_.data() + output_->begin(), step_, round_, piece, size_);
}

void Part::place_buffers() {
  const Role& role = step_.roles[std::size_t(rank_)];
  Random random(mix(step_.seed, 500 + std::uint64_t(rank_)));
  const Memory::Place ordinary = role.mapped ? Memory::Place::mapped : Memory::Place::ordinary;
  // In half of the steps all buffers are on devices. In others ranks have theirs there or not, and some one of both.
  static const char* const devices = std::getenv("MODEL_DEVICE");
  Random places(mix(step_.seed, 700 + std::uint64_t(rank_)));
  const bool all = Random(mix(step_.seed, 800)).one_in(2);
  const auto somewhere = [&] {
    return devices != nullptr && (all || places.one_in(2)) ? Memory::Place::device : ordinary;
  };
  if (devices != nullptr) test::use_device(rank_ % std::atoi(devices));
  input_ = std::make_unique<Memory>(shape_.input * element_, role.input_shift, somewhere());
  output_ = std::make_unique<Memory>(shape_.output * element_, role.output_shift, somewhere());
  call_.dtype = step_.dtype;
  call_.op = step_.own_op == OwnOp::none ? step_.op : handle_of(step_.own_op);
  call_.count = step_.count;
  // What is not looked at, or is empty, may be NULL or not.
  const bool null_input = (shape_.input == 0 || !shape_.has_input) && random.one_in(2);
  const bool null_output = (shape_.output == 0 || !shape_.has_output) && !shape_.in_place && random.one_in(2);
  call_.sendbuf = null_input ? nullptr : input_->address();
  call_.recvbuf = null_output ? nullptr : output_->address();
  call_.sendcounts = shape_.sendcounts.empty() ? nullptr : shape_.sendcounts.data();
  call_.sdispls = shape_.sdispls.empty() ? nullptr : shape_.sdispls.data();
  call_.recvcounts = shape_.recvcounts.empty() ? nullptr : shape_.recvcounts.data();
  call_.rdispls = shape_.rdispls.empty() ? nullptr : shape_.rdispls.data();
  const bool scatters = step_.kind == ANELLO_SCATTER || step_.kind == ANELLO_SCATTERV;
  if (varies(step_.kind) && !step_.counts.empty()) {
    const bool own_count = step_.kind != ANELLO_ALLTOALLV && step_.kind != ANELLO_REDUCE_SCATTER && !shape_.in_place;
    call_.count = own_count ? step_.counts[std::size_t(rank_)] : 12345;  // else it is not looked at
  }
  if (!shape_.in_place) return;
  if (shape_.own_part) {
    call_.sendbuf = output_->address();
    call_.recvbuf = output_->address() + shape_.results[0].at * element_;
    return;
  }
  const bool only_marker = step_.kind == ANELLO_REDUCE_SCATTER_BLOCK || step_.kind == ANELLO_REDUCE_SCATTER;
  const bool own_part = step_.kind == ANELLO_ALLGATHER || step_.kind == ANELLO_GATHER || step_.kind == ANELLO_SCATTER;
  const bool varying_part =
      step_.kind == ANELLO_ALLGATHERV || step_.kind == ANELLO_GATHERV || step_.kind == ANELLO_SCATTERV;
  const bool empty = varying_part ? step_.counts[std::size_t(rank_)] == 0 : step_.count == 0;
  const void* place = ANELLO_IN_PLACE;
  if (role.own_address && !only_marker && !empty) {
    std::size_t at = own_part ? std::size_t(rank_) * step_.count : 0;
    if (varying_part) at = (scatters ? shape_.sdispls : shape_.rdispls)[std::size_t(rank_)];
    place = (scatters ? input_ : output_)->address() + at * element_;
  }
  (scatters ? call_.recvbuf : const_cast<void*&>(call_.sendbuf)) = const_cast<void*>(place);
}

void Part::fill(int round) {
  round_ = round;
  input_->reset();
  output_->reset();
  for (const Piece& piece : shape_.given) {
    Memory& memory = shape_.input_in_output ? *output_ : *input_;
    lay(memory.data() + piece.at * element_, period(step_, round, piece.source), element_, piece.first, piece.count);
  }
  input_->put();
  output_->put();
  expected_input_ = input_->image();
  expected_output_ = output_->image();
  for (const Piece& piece : shape_.results) {
    lay_result(expected_output_.data() + output_->begin() + piece.at * element_, step_, round, piece, size_);
  }
}

void Part::spoil_arrays() {
  for (auto* const array : {&shape_.sendcounts, &shape_.sdispls, &shape_.recvcounts, &shape_.rdispls}) {
    std::fill(array->begin(), array->end(), SIZE_MAX / 3);
  }
}

void Part::check(const anello_status_t& status) const {
  if (expected_ == ANELLO_OK &&
      (status.source != status_.source || status.tag != status_.tag || status.count != status_.count)) {
    std::ostringstream out;
    out << "the status says source " << status.source << ", tag " << status.tag << ", count " << status.count
        << ", not source " << status_.source << ", tag " << status_.tag << ", count " << status_.count;
    throw Wrong(out.str());
  }
  input_->take();
  output_->take();
  const std::size_t end = shape_.output * element_;
  std::size_t specified = end;
  if (shape_.rest_unspecified) specified = shape_.results.empty() ? 0 : shape_.results[0].count * element_;
  check_buffer(output_ != nullptr && shape_.input_in_output ? "the buffer" : "the output", *output_, expected_output_,
               specified, end);
  check_buffer("the input", *input_, expected_input_, 0, 0);
}

void Part::check_buffer(const char* which, const Memory& got, const Bytes& expected, std::size_t skip,
                        std::size_t skip_end) const {
  const Difference found = difference(got, expected, skip, skip_end);
  if (!found.any) return;
  std::ostringstream out;
  out << which << " differs";
  const auto bytes = std::ptrdiff_t(got.bytes());
  if (found.at < 0 || found.at >= bytes) {
    out << (found.at < 0 ? " before its begin, byte " : " past its end, byte ") << found.at << " of " << bytes;
  } else {
    const std::size_t index = std::size_t(found.at) / element_;
    const std::size_t at = got.begin() + index * element_;
    out << " at element " << index << " of " << std::size_t(bytes) / element_ << ": 0x"
        << hex(got.image().data() + at, element_) << ", not 0x" << hex(expected.data() + at, element_);
  }
  throw Wrong(out.str());
}

}  // namespace anello::model
