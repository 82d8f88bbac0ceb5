#pragma once
// Anello's C API for the trainer: failures become exceptions, and the time inside is summed.
#include <anello/anello.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fashion {

class Communicator {
 public:
  Communicator();  // rank and size from the environment
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The transport to the next rank: "shm", "tcp", ..; "self" for a single rank.
  std::string transport() const;

  anello_comm_t handle() const { return comm_; }
  // Throws the error of a call of Anello; what: the purpose of the call.
  void check(const char* what, anello_result_t result) const;

  void broadcast(float* values, std::size_t count);
  void average(float* values, std::size_t count);
  void sum(double* values, std::size_t count);
  void sum(std::int64_t* values, std::size_t count);
  std::vector<std::int64_t> gather(std::int64_t value);  // of all ranks, in their order

  double seconds_inside() const { return seconds_inside_; }

 private:
  template <class Call>
  void timed(const char* what, Call call);

  anello_comm_t comm_ = ANELLO_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  double seconds_inside_ = 0;
};

}  // namespace fashion
