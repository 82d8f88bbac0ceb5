#include "control/bodies.h"

namespace anello::control {
namespace {

// The number of a rank of the job, or none.
Error take_error_in(Reader& reader, int size) {
  Error error = take_error(reader);
  if (error.peer() >= size) throw Reader::corrupt();
  return error;
}

std::vector<int> take_ranks(Reader& reader, int size) {
  std::vector<int> ranks(reader.take_in<std::uint32_t>(1, kMaxListed));
  for (int& rank : ranks) rank = reader.take_in(0, size - 1);
  return ranks;
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

bool take_beat(Reader& reader) {
  const bool wants_answer = reader.take_in<std::uint8_t>(0, 1) != 0;
  reader.end();
  return wants_answer;
}

LifeBody take_life(Reader& reader, int size) {
  LifeBody body;
  body.life = reader.take_in(Life::heard, Life::stopped);
  body.ranks = take_ranks(reader, size);
  reader.end();
  return body;
}

SilentBody take_silent(Reader& reader, int size) {
  SilentBody body;
  body.ranks = take_ranks(reader, size);
  body.how = reader.take_text();
  reader.end();
  return body;
}

}  // namespace anello::control
