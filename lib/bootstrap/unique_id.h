#pragma once
// The 128 bytes that lead a rank to a meeting place and prove it there.
#include "bootstrap/meeting.h"

#include <anello/anello.h>

#include <string>

namespace anello::bootstrap {

struct FreshMeeting {
  control::Key secret;
  Meeting meeting;
};
// ip: where ranks of other hosts find this process; empty: this host only.
FreshMeeting fresh_meeting(const std::string& ip);
// tcp: where the meeting place listens for other hosts; empty: nowhere.
anello_unique_id_t encode_id(const FreshMeeting& fresh, const control::Address& tcp);
// Throws Error: ANELLO_ERR_ARGUMENT for bytes that are no id.
Meeting decode_id(const anello_unique_id_t& id);

}  // namespace anello::bootstrap
