#pragma once
// Lends a rank's operations and takes them back, with the memory that they have. Requires the rank's lock.
#include "executor/operation.h"

#include <memory>
#include <vector>

namespace anello::executor {

class OperationPool {
 public:
  // Throws std::bad_alloc.
  Operation* take(Group& group);
  void give_back(Operation* operation);
  // Restores the state before the operation was entered, so that it may be entered again as it is.
  static void renew(Operation& operation);

 private:
  OperationFifo free_;
  std::vector<std::unique_ptr<Operation>> all_;
};

}  // namespace anello::executor
