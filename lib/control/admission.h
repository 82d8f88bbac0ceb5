#pragma once
// What every connection does before any other byte is believed. Three messages of fixed size:
//
//   listener -> dialler   Greeting   version, features, nonce
//   dialler  -> listener  Claim      version, features, job, purpose, from, to, nonce, proof over all of it
//   listener -> dialler   Verdict    status, version, features, proof over all three
//
// A proof is an HMAC under a key derived from the job's secret, with a label for the role, so that neither side's can
// be sent back to it. The dialler proves first: who only listens learns nothing. These three keep their layout in all
// versions to come, so that two versions can tell each other so.
#include "control/secret.h"
#include "control/stream.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace anello::control {

inline constexpr std::uint32_t kWireVersion = 25;
inline constexpr std::uint32_t kFeatures = 0;
using JobId = std::array<std::byte, 16>;

enum class Purpose : std::uint32_t { rendezvous = 1, arena = 2, control = 3, lane = 4, region = 5, detour = 6 };

struct Greeting {
  char magic[8];
  std::uint32_t version;
  std::uint32_t features;
  std::array<std::byte, 32> nonce;
};
static_assert(sizeof(Greeting) == 48 && std::is_trivially_copyable_v<Greeting>);

struct Claim {
  char magic[8];
  std::uint32_t version;
  std::uint32_t features;
  JobId job;
  Purpose purpose;
  std::int32_t from;
  std::int32_t to;
  std::uint32_t zero;
  std::array<std::byte, 32> nonce;
  std::array<std::byte, 16> spare;
  Digest proof;
};
static_assert(sizeof(Claim) == 128 && std::is_trivially_copyable_v<Claim>);

enum class Status : std::uint32_t { welcome = 1, unknown = 2, refused = 3, version = 4 };

struct Verdict {
  Status status;
  std::uint32_t version;
  std::uint32_t features;
  std::uint32_t zero;
  Digest proof;  // zero unless the dialler has proved itself
};
static_assert(sizeof(Verdict) == 48 && std::is_trivially_copyable_v<Verdict>);

// What a dialler claims to be, and the key that proves it.
struct Credentials {
  JobId job{};
  Key key;
  bool same_user = false;  // no secret behind the key: the uid at the other end of the Unix socket stands in
  Purpose purpose = Purpose::rendezvous;
  int from = -1;
  int to = -1;
  std::uint32_t version = kWireVersion;
};

// The dialler's part. Throws Error: ANELLO_ERR_AUTH and ANELLO_ERR_VERSION are final, Unknown and others are worth
// another try.
struct Unknown : Error {
  using Error::Error;
  bool process_answered = true;  // false: nobody listens there any more
};
Task<> claim(std::shared_ptr<Stream> stream, Credentials credentials);

// The listener's part. find: the key for a claim, or nullptr when it knows no such job here. Returns the claim that
// was proved; its version may differ from ours, in which case the dialler has been told and the connection is of no
// further use. Throws Error for everything else.
struct Expected {
  Key key;
  bool same_user = false;
};
Task<Claim> admit(std::shared_ptr<Stream> stream, std::function<const Expected*(const Claim&)> find);

}  // namespace anello::control
