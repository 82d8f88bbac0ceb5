#pragma once
// The requests of one strand on one rank that are under way, and the ways to complete them: one or several, waited for
// or tested, in any order.
#include "model/part.h"
#include "model/random.h"

namespace anello::model {

class Pending {
 public:
  explicit Pending(int timeout_ms) : timeout_ms_(timeout_ms) {}

  void add(Part* part) { parts_.push_back(part); }
  bool empty() const { return parts_.empty(); }
  // Completes some of them, in a way that chance decides. Parts that are complete have been checked and are inactive.
  void complete_some(Random& random);
  // Until this one is complete.
  void complete(Part* part);
  void complete_all(Random& random);

 private:
  enum class Way { wait, test, wait_all, test_all, wait_any, test_any, wait_some, test_some };
  void complete(const std::vector<Part*>& chosen, Way way);
  // What is known of those that completed together: of several only the first failure.
  void completed(const std::vector<Part*>& done, anello_result_t result, const std::vector<anello_status_t>& statuses);

  std::vector<Part*> parts_;
  int timeout_ms_;
};

// Of a failure: the code's name and the library's text.
std::string said(anello_result_t result, anello_comm_t comm);

}  // namespace anello::model
