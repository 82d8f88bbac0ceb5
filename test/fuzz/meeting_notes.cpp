// The file at which ranks meet, as whoever may write there has left it.
#include "base/error.h"
#include "bootstrap/meeting_file.h"
#include "bootstrap/unique_id.h"
#include "fuzz/input.h"

#include <cstdlib>
#include <string>

using namespace anello;
using namespace anello::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  try {
    const MeetingNote note = parse_note(std::string(fuzz::Input(bytes, count).text()), "/the/file");
    if (note.job.find('\0') != std::string::npos || note.host.find('\0') != std::string::npos) std::abort();
    decode_id(note.id);  // what a rank does next
  } catch (const Error& error) {
    if (error.code() != ANELLO_ERR_AUTH && error.code() != ANELLO_ERR_ARGUMENT && error.code() != ANELLO_ERR_VERSION)
      std::abort();
  }
  return 0;
}
