#pragma once
// The place where the ranks of one creation meet, and the proofs that they give each other. It is the same on all
// ranks, however they learned of it.
#include "bootstrap/ended_ranks.h"
#include "bootstrap/launcher.h"
#include "control/address.h"
#include "control/admission.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace anello::bootstrap {

struct Meeting {
  std::vector<control::Address> listen;  // the addresses at which the host opens it; for each TCP port, the next port
                                         // also serves
  std::vector<control::Address> reach;   // the addresses that the others try in turn
  control::JobId job{};
  control::Key key;
  bool same_user = false;                   // there is no secret; the uid replaces it
  bool must_exist = false;                  // it existed before any rank learned of it
  std::string place;                        // for people
  std::shared_ptr<const EndedRanks> ended;  // null: ended ranks are not reported
  std::function<bool()> wanted;             // false: no rank should come here any more; empty: always true
  std::string hint;                         // the likely cause if ranks are missing; empty: unknown
};

// The meeting for url (env:// if null) and launch. Throws Error: ARGUMENT, ADDRESS, AUTH.
// The contents of a URL. Throws Error (ANELLO_ERR_ARGUMENT). No side effects.
struct Place {
  enum class Kind { environment, tcp, name, file };
  Kind kind = Kind::environment;
  std::string host;  // of tcp; a name's name; a file's path
  int port = 0;
};
Place parse_url(std::string_view url);

Meeting meeting_at(const char* url, const Launch& launch, std::int64_t timeout_ms);

std::string hex(std::span<const std::byte> bytes);

}  // namespace anello::bootstrap
