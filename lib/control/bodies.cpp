#include "control/bodies.h"

namespace anello::control {
namespace {

// Of a rank of the job, or none.
Error take_error_in(Reader& reader, int size) {
  Error error = take_error(reader);
  if (error.peer() >= size) throw Reader::corrupt();
  return error;
}

}  // namespace

int take_rank(Reader& reader, int size) {
  const int rank = reader.take_in(0, size - 1);
  reader.end();
  return rank;
}

LostBody take_lost(Reader& reader, int size) {
  const int rank = reader.take_in(0, size - 1);
  Error error = take_error_in(reader, size);
  reader.end();
  return {rank, std::move(error)};
}

AskBody take_ask(Reader& reader, int size) {
  AskBody body;
  body.communicator = reader.take<std::uint64_t>();
  body.sequence = reader.take<std::uint32_t>();
  body.asker = reader.take_in(0, size - 1);
  reader.end();
  return body;
}

AnswerBody take_answer(Reader& reader, int size) {
  AnswerBody body;
  body.asker = reader.take_in(0, size - 1);
  body.from = reader.take_in(0, size - 1);
  body.communicator = reader.take<std::uint64_t>();
  body.sequence = reader.take<std::uint32_t>();
  body.history = take_history(reader);
  reader.end();
  return body;
}

FailedBody take_failed(Reader& reader, int size) {
  FailedBody body;
  body.communicator = reader.take<std::uint64_t>();
  body.error = take_error_in(reader, size);
  body.ranks.resize(reader.take_in<std::uint32_t>(0, kMaxListed));
  for (int& rank : body.ranks) rank = reader.take_in(0, size - 1);
  reader.end();
  return body;
}

}  // namespace anello::control
