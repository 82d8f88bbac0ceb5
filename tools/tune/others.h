#pragma once
// How busy other programs have kept the processors: what is measured beside them is of little use.
#include <string>

namespace anello::tune {

class Others {
 public:
  Others();  // from now on
  // Of all processors' time until now, 0 to 1: what neither this process nor those that it has waited for have used. 0
  // where the kernel does not say.
  double share() const;
  // "" where they were quiet, else a sentence.
  std::string warning() const;

 private:
  double busy_s_;
  double own_s_;
  double begin_s_;
};

}  // namespace anello::tune
