#pragma once
#include "model/program.h"

namespace anello::model {

// One deliberate error, on a communicator made for it; throws Wrong where ranks are not told as the header says, or
// where comm itself does not go on.
void make_error(const Step& step, int rank, int size, anello_comm_t comm);

}  // namespace anello::model
