#include "control/wire.h"

#include <limits>

namespace anello::control {

void put_error(Writer& writer, const Error& error) {
  writer.put<std::int32_t>(error.code()).put<std::int32_t>(error.peer()).put_text(error.text());
}

Error take_error(Reader& reader) {
  const auto code =
      static_cast<anello_result_t>(reader.take_in<std::int32_t>(ANELLO_ERR_ARGUMENT, ANELLO_ERR_INTERNAL));
  const int peer = reader.take_in<std::int32_t>(-1, std::numeric_limits<std::int32_t>::max());
  return {code, reader.take_text(), peer};
}

}  // namespace anello::control
