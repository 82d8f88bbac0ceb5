#include "control/admission.h"

#include "base/text.h"
#include "control/descriptor_passing.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <unistd.h>

namespace anello::control {
namespace {

constexpr char kGreetingMagic[8] = {'A', 'N', 'E', 'L', 'L', 'O', '<', '\n'};
constexpr char kClaimMagic[8] = {'A', 'N', 'E', 'L', 'L', 'O', '>', '\n'};

template <class T>
Bytes raw(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> raw_mutable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Digest claim_proof(const Key& key, const Greeting& greeting, const Claim& claim) {
  return hmac(key, {bytes_of("anello dialler"), raw(greeting), raw(claim).first(offsetof(Claim, proof))});
}

Digest verdict_proof(const Key& key, const Greeting& greeting, const Claim& claim, const Verdict& verdict) {
  return hmac(key,
              {bytes_of("anello listener"), raw(greeting), raw(claim), raw(verdict).first(offsetof(Verdict, proof))});
}

// The keys contain both ends' random numbers, so no two connections have equal keys.
LinkKeys keys_of(const Key& key, const Greeting& greeting, const Claim& claim, bool dials) {
  std::array<std::byte, sizeof greeting.nonce + sizeof claim.nonce> nonces;
  std::copy(claim.nonce.begin(), claim.nonce.end(),
            std::copy(greeting.nonce.begin(), greeting.nonce.end(), nonces.begin()));
  const Key of_dialler = derive(key, "anello frames of the dialler", nonces);
  const Key of_listener = derive(key, "anello frames of the listener", nonces);
  return dials ? LinkKeys{of_dialler, of_listener} : LinkKeys{of_listener, of_dialler};
}

bool same_user(const Stream& stream) {
  const PeerProcess peer = peer_process(stream.descriptor());
  return peer.known && peer.uid == ::geteuid();
}

}  // namespace

Task<> claim(std::shared_ptr<Stream> stream, Credentials credentials) {
  if (credentials.same_user && !same_user(*stream)) {
    throw Error(ANELLO_ERR_AUTH,
                "the meeting place belongs to another user; with ranks of several users, give the "
                "job a secret (ANELLO_SECRET_FILE)");
  }
  Greeting greeting{};
  co_await stream->read(raw_mutable(greeting));
  if (std::memcmp(greeting.magic, kGreetingMagic, sizeof greeting.magic) != 0) {
    throw Error(ANELLO_ERR_ADDRESS, "something that is not Anello answers");
  }
  Claim claim{};
  std::memcpy(claim.magic, kClaimMagic, sizeof claim.magic);
  claim.version = credentials.version;
  claim.features = kFeatures;
  claim.job = credentials.job;
  claim.purpose = credentials.purpose;
  claim.from = credentials.from;
  claim.to = credentials.to;
  fill_random(claim.nonce);
  claim.proof = claim_proof(credentials.key, greeting, claim);
  co_await stream->write(raw(claim));
  Verdict verdict{};
  co_await stream->read(raw_mutable(verdict));
  if (verdict.status == Status::unknown) {
    throw Unknown(ANELLO_ERR_RENDEZVOUS, "the process there does not know this job or rank (any more, or yet)");
  }
  if (verdict.status == Status::refused) {
    throw Error(ANELLO_ERR_AUTH, "the job's secret here differs from that of the other ranks");
  }
  if (!equal(verdict.proof, verdict_proof(credentials.key, greeting, claim, verdict))) {
    throw Error(ANELLO_ERR_AUTH, "the process there could not prove the job's secret");
  }
  if (verdict.status == Status::version || verdict.version != credentials.version) {
    throw Error(ANELLO_ERR_VERSION, text("this rank speaks wire version ", credentials.version, ", the other side ",
                                         verdict.version, "; use one build of Anello on all ranks"));
  }
  stream->keys = keys_of(credentials.key, greeting, claim, true);
}

Task<Claim> admit(std::shared_ptr<Stream> stream, std::function<const Expected*(const Claim&)> find) {
  Greeting greeting{};
  std::memcpy(greeting.magic, kGreetingMagic, sizeof greeting.magic);
  greeting.version = kWireVersion;
  greeting.features = kFeatures;
  fill_random(greeting.nonce);
  co_await stream->write(raw(greeting));
  Claim claim{};
  co_await stream->read(raw_mutable(claim));
  if (std::memcmp(claim.magic, kClaimMagic, sizeof claim.magic) != 0) {
    throw Error(ANELLO_ERR_AUTH, "not a claim");
  }
  Verdict verdict{Status::welcome, kWireVersion, kFeatures, 0, {}};
  const Expected* const found = find(claim);
  if (found == nullptr) {
    verdict.status = Status::unknown;
    co_await stream->write(raw(verdict));
    // This is not a stranger: most often it is a rank that is early or late.
    throw Unknown(ANELLO_ERR_RENDEZVOUS, "no such job here");
  }
  const Expected expected = *found;  // a copy, because the original may be gone after the next wait
  if ((expected.same_user && !same_user(*stream)) || !equal(claim.proof, claim_proof(expected.key, greeting, claim))) {
    verdict.status = Status::refused;
    co_await stream->write(raw(verdict));
    throw Error(ANELLO_ERR_AUTH, "a wrong proof");
  }
  if (claim.version != kWireVersion) verdict.status = Status::version;
  verdict.proof = verdict_proof(expected.key, greeting, claim, verdict);
  co_await stream->write(raw(verdict));
  stream->keys = keys_of(expected.key, greeting, claim, false);
  co_return claim;
}

}  // namespace anello::control
