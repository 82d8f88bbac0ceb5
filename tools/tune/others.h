#pragma once
// Measures how busy other programs have kept the processors: measurements beside them are of little use.
#include <string>

namespace anello::tune {

class Others {
 public:
  Others();  // from now on
  // The share of all processors' time until now, 0 to 1, that neither this process nor its waited-for children have
  // used. 0 if the kernel does not report it.
  double share() const;
  // "" if they were quiet, else a sentence.
  std::string warning() const;

 private:
  double busy_s_;
  double own_s_;
  double begin_s_;
};

}  // namespace anello::tune
