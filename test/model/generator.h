#pragma once
// Makes one program. generate.cpp has its strands, order and communicators, generate_calls.cpp its collectives and
// messages.
#include "model/program.h"
#include "model/random.h"
#include "support/oracle.h"

namespace anello::model {

class Generator {
 public:
  Generator(std::uint64_t seed, int job_ranks) : random_(mix(seed, 1)) {
    program_.seed = seed;
    program_.job_ranks = job_ranks;
  }

  Program run();

 private:
  void fill(int k, int steps);
  // Turns: a step's further rounds come some steps later.
  void order(Strand& strand);
  Step step();
  // Some of the ranks, in any order.
  void subset(Step& step);
  void make(Step& step, Action action);
  void destroy(Step& step);
  Step error(int k);

  std::size_t size_of(const Step& step) const;
  void data(Step& step);
  // Of a reduction: type and operation.
  void operation(Step& step);
  // As many elements as fill up to 1 MiB, their logarithm evenly distributed, of a buffer that has `parts` of them.
  std::size_t count(const Step& step, std::size_t parts);
  void forms(Step& step);
  void collective(Step& step);
  void counts(Step& step);
  std::size_t room(std::size_t count);
  void message(Step& step);
  // Whether each receive gets a message when each message goes to the first receive that fits it. (Both sides keep
  // their order, so that it comes out so whoever is early.)
  static bool match(const std::vector<Message>& messages, std::vector<Receive>& receives);
  void burst(Step& step);
  void crowd(Step& step);
  void shift(Step& step);

  Random random_;
  Program program_;
  const std::vector<anello_dtype_t> dtypes_ = test::all_dtypes();
  std::vector<int> open_;  // communicators of the strand
  int next_id_ = 0;
  std::size_t spent_ = 0;
  bool heavy_ = false;
};

}  // namespace anello::model
