#pragma once
// One rank's part in a step: its buffers, its call, and what the model says must have come out. Used by the thread that
// plays the strand. A persistent part is filled again for each round.
#include "model/memory.h"
#include "model/shape.h"

#include <memory>
#include <stdexcept>

namespace anello::model {

// What came out is not what must; the text says where.
struct Wrong : std::runtime_error {
  using runtime_error::runtime_error;
};

inline constexpr anello_status_t kNoStatus{-9, -9, 77};

class Part {
 public:
  static std::unique_ptr<Part> of_collective(const Step& step, int rank, int size);
  static std::unique_ptr<Part> of_send(const Step& step, std::size_t message);
  static std::unique_ptr<Part> of_receive(const Step& step, std::size_t receive);

  // Sets the buffers to what they are before the call of this round.
  void fill(int round);
  // The call as the caller writes it; arrays point into this part.
  anello_call_t call() const { return call_; }
  // The arrays are the caller's again once posted (persistent: once made).
  void spoil_arrays();

  const Step& step() const { return step_; }
  int round() const { return round_; }
  anello_result_t expected_result() const { return expected_; }
  // After completion: the status and every byte. Throws Wrong.
  void check(const anello_status_t& status) const;
  // Of a crowd's receives: what came is this message. Before check.
  void came(std::size_t message);

  // Posted as:
  Form form = Form::blocking;
  bool grouped = false;
  anello_request_t request = ANELLO_REQUEST_NULL;
  bool active = false;

 private:
  explicit Part(const Step& step) : step_(step) {}
  void place_buffers();
  void check_buffer(const char* which, const Memory& got, const Bytes& expected, std::size_t skip,
                    std::size_t skip_end) const;

  const Step& step_;
  int rank_ = 0;  // of the communicator
  int size_ = 0;
  int round_ = 0;
  Shape shape_;
  std::size_t element_ = 0;
  std::unique_ptr<Memory> input_, output_;
  Bytes expected_input_, expected_output_;
  anello_call_t call_ = ANELLO_CALL_INITIALIZER;
  anello_result_t expected_ = ANELLO_OK;
  anello_status_t status_ = kNoStatus;
  const Message* message_ = nullptr;
};

}  // namespace anello::model
