#pragma once
// Where the ranks of one creation meet, and what they show each other there. The same on all ranks, however they were
// told of it.
#include "bootstrap/ended_ranks.h"
#include "bootstrap/launcher.h"
#include "control/address.h"
#include "control/admission.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anello::bootstrap {

struct Meeting {
  std::vector<control::Address> listen;  // the host's: where it opens; for each TCP port, the next one serves as well
  std::vector<control::Address> reach;   // the others': tried in turn
  control::JobId job{};
  control::Key key;
  bool same_user = false;                   // nobody gave a secret; the uid stands in
  bool must_exist = false;                  // there before anybody was told of it
  std::string place;                        // for people
  std::shared_ptr<const EndedRanks> ended;  // null: nobody tells of ranks that have ended
  std::string hint;                         // what may be wrong when ranks are missing; empty: nothing
};

// By url (env:// when null) and launch. Throws Error: ARGUMENT, ADDRESS, AUTH.
// What a URL says, as far as it tells by itself. Throws Error (ANELLO_ERR_ARGUMENT). Pure.
struct Place {
  enum class Kind { environment, tcp, name };
  Kind kind = Kind::environment;
  std::string host;  // of tcp; a name's name
  int port = 0;
};
Place parse_url(std::string_view url);

Meeting meeting_at(const char* url, const Launch& launch, std::int64_t timeout_ms);

std::string hex(std::span<const std::byte> bytes);

}  // namespace anello::bootstrap
