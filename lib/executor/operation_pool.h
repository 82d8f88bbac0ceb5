#pragma once
// Where a rank's operations come from and go back to, with the memory that they have. Requires the rank's lock.
#include "executor/operation.h"

#include <memory>
#include <vector>

namespace anello::executor {

class OperationPool {
 public:
  // Throws std::bad_alloc.
  Operation* take(Group& group);
  void give_back(Operation* operation);
  // Back to where it was before it was entered: it may be entered again as it is.
  static void renew(Operation& operation);

 private:
  OperationFifo free_;
  std::vector<std::unique_ptr<Operation>> all_;
};

}  // namespace anello::executor
