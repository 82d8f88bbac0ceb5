#pragma once
// Where the parts of a collective lie in one rank's buffers, and what each part of its output must be.
#include "model/operands.h"

namespace anello::model {

// count elements at element `at` of a buffer.
struct Piece {
  std::size_t at = 0;
  std::size_t count = 0;
  std::size_t first = 0;  // the number of its first element among those of its source
  int source = 0;         // a rank; if `reduce` is set: ranks 0 to source
  bool reduce = false;
};

struct Shape {
  std::size_t input = 0;     // elements of sendbuf
  std::size_t output = 0;    // elements of recvbuf
  std::vector<Piece> given;  // this rank's own elements: in sendbuf, or where it is in place where they begin
  std::vector<Piece> results;
  bool in_place = false;
  bool input_in_output = false;   // in place: recvbuf has the input
  bool own_part = false;          // in place: recvbuf is this rank's part of the input, the only result
  bool rest_unspecified = false;  // behind the results
  bool has_output = true;         // recvbuf is looked at
  bool has_input = true;          // sendbuf is looked at
  std::vector<std::size_t> sendcounts, sdispls, recvcounts, rdispls;
};

Shape shape(const Step& step, int rank, int size);

// The elements that the piece must have.
void lay_result(unsigned char* at, const Step& step, int round, const Piece& piece, int size);

}  // namespace anello::model
