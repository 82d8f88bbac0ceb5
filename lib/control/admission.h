#pragma once
// The handshake of every connection. Nothing else is trusted before it. It has three messages of fixed size:
//
//   listener -> dialler   Greeting   version, features, nonce
//   dialler  -> listener  Claim      version, features, job, purpose, from, to, nonce, proof over all of it
//   listener -> dialler   Verdict    status, version, features, proof over all three
//
// A proof is an HMAC under a key derived from the job's secret, with a label for the role, so that a side's proof
// cannot be sent back to it. The dialler proves first: a stranger that connects learns nothing. These three messages
// keep their layout in all later versions, so that different versions can recognise each other.
#include "control/secret.h"
#include "control/stream.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace anello::control {

inline constexpr std::uint32_t kWireVersion = 27;
inline constexpr std::uint32_t kFeatures = 0;
using JobId = std::array<std::byte, 16>;

enum class Purpose : std::uint32_t {
  rendezvous = 1,
  arena = 2,
  control = 3,
  lane = 4,
  region = 5,
  detour = 6,
  rail = 7
};

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

// The claims of a dialler, and the key that proves them.
struct Credentials {
  JobId job{};
  Key key;
  bool same_user = false;  // the key has no secret; the uid at the other end of the Unix socket replaces it
  Purpose purpose = Purpose::rendezvous;
  int from = -1;
  int to = -1;
  std::uint32_t version = kWireVersion;
};

// The dialler's part. Throws Error: ANELLO_ERR_AUTH and ANELLO_ERR_VERSION are final; after Unknown and others the
// caller may try again.
struct Unknown : Error {
  using Error::Error;
  bool process_answered = true;  // false: no process listens there any more
};
Task<> claim(std::shared_ptr<Stream> stream, Credentials credentials);

// The listener's part. find returns the key for a claim, or nullptr if there is no such job here. Returns the proved
// claim; its version may differ from ours, in which case the dialler has been told and the connection has no further
// use. Throws Error for everything else.
struct Expected {
  Key key;
  bool same_user = false;
};
Task<Claim> admit(std::shared_ptr<Stream> stream, std::function<const Expected*(const Claim&)> find);

}  // namespace anello::control
