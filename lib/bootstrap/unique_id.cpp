#include "bootstrap/unique_id.h"

#include "base/error.h"

#include <cstring>

namespace anello::bootstrap {
namespace {

using namespace control;

struct Layout {
  char magic[8];
  std::uint32_t version;
  std::uint16_t port;  // 0: this host only
  char ip[46];         // numeric, padded with zeros
  std::byte secret[32];
  std::byte spare[36];
};
static_assert(sizeof(Layout) == sizeof(anello_unique_id_t));
constexpr char kMagic[8] = {'a', 'n', 'e', 'l', 'l', 'o', 'I', 'd'};
constexpr std::uint32_t kVersion = 1;

// Everything but the TCP address follows from the secret.
Meeting meeting_of(const Key& secret) {
  Meeting meeting;
  meeting.key = derive(secret, "anello id", {});
  const Key job = derive(secret, "anello id job", {});
  std::memcpy(meeting.job.data(), job.bytes().data(), meeting.job.size());
  const Key name = derive(secret, "anello id name", {});
  meeting.listen.push_back({"anello-" + hex(name.bytes().first(12)), "", 0});
  meeting.reach = meeting.listen;
  meeting.must_exist = true;
  meeting.place = "the place that the unique id names";
  return meeting;
}

}  // namespace

FreshMeeting fresh_meeting(const std::string& ip) {
  std::array<std::byte, 32> secret;
  const Wiped wiped(secret);
  fill_random(secret);
  FreshMeeting fresh{Key(secret), {}};
  fresh.meeting = meeting_of(fresh.secret);
  if (!ip.empty()) fresh.meeting.listen.push_back({"", ip, 0});
  return fresh;
}

anello_unique_id_t encode_id(const FreshMeeting& fresh, const Address& tcp) {
  Layout layout{};
  const Wiped wiped(layout.secret);
  std::memcpy(layout.magic, kMagic, sizeof kMagic);
  layout.version = kVersion;
  layout.port = tcp.port;
  tcp.ip.copy(layout.ip, sizeof layout.ip - 1);
  std::memcpy(layout.secret, fresh.secret.bytes().data(), sizeof layout.secret);
  anello_unique_id_t id;
  std::memcpy(id.bytes, &layout, sizeof layout);
  return id;
}

Meeting decode_id(const anello_unique_id_t& id) {
  Layout layout;
  const Wiped wiped(layout.secret);
  std::memcpy(&layout, id.bytes, sizeof layout);
  if (std::memcmp(layout.magic, kMagic, sizeof kMagic) != 0 || layout.ip[sizeof layout.ip - 1] != '\0') {
    throw Error(ANELLO_ERR_ARGUMENT, "unique_id was not made by anello_unique_id_create");
  }
  if (layout.version != kVersion) throw Error(ANELLO_ERR_VERSION, "unique_id was made by another version of Anello");
  Meeting meeting = meeting_of(Key(layout.secret));
  if (layout.port != 0 && layout.ip[0] != '\0') meeting.reach.push_back({"", layout.ip, layout.port});
  return meeting;
}

}  // namespace anello::bootstrap
