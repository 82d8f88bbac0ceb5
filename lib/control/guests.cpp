#include "control/guests.h"

#include "base/clock.h"
#include "base/text.h"
#include "control/address.h"
#include "control/descriptor_passing.h"

#include <algorithm>

#include <unistd.h>

namespace anello::control {
namespace {

constexpr std::size_t kMaxProved = 4096;  // above this, a late rank may count as a stranger

}  // namespace

Source Source::of(int socket) {
  const Address peer = peer_address(socket);
  if (!peer.ip.empty()) return {false, peer.ip};
  const PeerProcess process = peer_process(socket);
  if (!process.known) return {false, "an unknown user"};
  return {process.uid == ::geteuid(), text("user ", process.uid)};
}

std::shared_ptr<Guest> Guests::seat(std::shared_ptr<Stream> stream, Source source) {
  auto guest = std::make_shared<Guest>();
  guest->stream = std::move(stream);
  guest->source = std::move(source);
  guest->since_ns = now_ns();
  guest->number = next_++;
  if (!guest->source.own) ++places_of_[guest->source.name];
  (guest->source.own ? own_ : others_).emplace(guest->number, guest);
  return guest;
}

void Guests::leave(const Guest& guest) {
  if ((guest.source.own ? own_ : others_).erase(guest.number) == 0 || guest.source.own) return;
  const auto places = places_of_.find(guest.source.name);
  if (--places->second == 0) places_of_.erase(places);
}

std::shared_ptr<Guest> Guests::turn_out(bool own, const std::string& why) {
  const ByAge& guests = own ? own_ : others_;
  if (guests.empty()) return nullptr;
  auto chosen = guests.begin();
  if (!own) {
    const auto most = std::max_element(places_of_.begin(), places_of_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    chosen = std::find_if(guests.begin(), guests.end(),
                          [&](const auto& guest) { return guest.second->source.name == most->first; });
  }
  const std::shared_ptr<Guest> guest = chosen->second;
  leave(*guest);
  guest->why = why;
  guest->stream->close();
  return guest;
}

void Guests::proved(const Source& source) {
  if (!source.own && proved_.size() < kMaxProved) proved_.insert(source.name);
}

}  // namespace anello::control
