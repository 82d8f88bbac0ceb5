#include "transports/verbs/sent_notes.h"

#include "base/clock.h"

#include <arpa/inet.h>

namespace anello::transport {
namespace {

// Ids of this class's requests: a kind, and the place of a receive's word.
enum Kind : std::uint64_t { kWrite = 0xa1, kNote, kQuestion, kFirst, kReceive };
constexpr int kKindAt = 56;
constexpr std::uint64_t id_of(Kind kind, std::uint64_t at = 0) { return std::uint64_t{kind} << kKindAt | at; }
constexpr std::uint64_t kind_of(const ibv_wc& completion) { return completion.wr_id >> kKindAt; }

// iWARP's adapters write what they read under a key that the peer knows.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

}  // namespace

VerbsSentNotes::VerbsSentNotes(const std::shared_ptr<VerbsPort>& port, int writes, int receives)
    : writes_(std::size_t(writes)),
      receives_(std::size_t(receives)),
      pages_((writes_ + receives_ + 1) * kWordBytes),
      region_(VerbsDomain::of(port), pages_.memory(), kAccess) {}

ibv_sge VerbsSentNotes::part(std::size_t at, std::uint32_t bytes) const {
  return {reinterpret_cast<std::uintptr_t>(word(at)), bytes, region_.local_key()};
}

int VerbsSentNotes::post_receives(ibv_qp* pair, int count) {
  for (; count > 0; --count) {
    const std::size_t at = next_receive_ % receives_;
    ibv_sge into = part(at, sizeof(std::uint32_t));
    ibv_recv_wr request{};
    request.wr_id = id_of(kReceive, at);
    request.sg_list = &into;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(pair, &request, &bad); error != 0) return error;
    ++next_receive_;
  }
  return 0;
}

ibv_send_wr VerbsSentNotes::question(ibv_sge* into) const {
  *into = part(receives_ + writes_, kWordBytes);
  ibv_send_wr request{};
  request.wr_id = id_of(kQuestion);
  request.sg_list = into;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = peer_address_;
  request.wr.rdma.rkey = peer_key_;
  return request;
}

void VerbsSentNotes::take_asked() {
  is_asking_ = true;
  asked_ = posted_;
  asked_ns_ = now_ns();
}

int VerbsSentNotes::post(ibv_qp* pair, ibv_send_wr& write, std::uint32_t number, bool inlined, int* posted) {
  const std::size_t at = receives_ + posted_ % writes_;
  *word(at) = htonl(number);
  ibv_sge from = part(at, sizeof number), into{};
  peer_address_ = write.wr.rdma.remote_addr & ~std::uint64_t{kWordBytes - 1};
  peer_key_ = write.wr.rdma.rkey;
  ibv_send_wr note{}, asks = question(&into);
  note.wr_id = id_of(kNote);
  note.sg_list = &from;
  note.num_sge = 1;
  note.opcode = IBV_WR_SEND;
  note.send_flags = IBV_SEND_SIGNALED | (inlined ? unsigned(IBV_SEND_INLINE) : 0u);
  note.next = is_asking_ ? nullptr : &asks;
  write.wr_id = id_of(kWrite);
  write.opcode = IBV_WR_RDMA_WRITE;
  write.send_flags &= ~unsigned(IBV_SEND_SIGNALED);
  write.next = &note;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair, write.num_sge > 0 ? &write : &note, &bad);
  const bool is_sent = error == 0 || bad == &asks;
  *posted = is_sent ? 1 : 0;
  if (!is_sent) return error;
  ++posted_;
  if (error == 0 && !is_asking_) {
    take_asked();
    ++*posted;
  }
  return error;
}

int VerbsSentNotes::post_question(ibv_qp* pair, int* posted) {
  *posted = 0;
  if (!has_question()) return 0;
  ibv_sge into{};
  ibv_send_wr asks = question(&into);
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(pair, &asks, &bad); error != 0) return error;
  take_asked();
  *posted = 1;
  return 0;
}

int VerbsSentNotes::post_first(ibv_qp* pair) {
  ibv_send_wr request{};
  request.wr_id = id_of(kFirst);
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(pair, &request, &bad);
}

// A write has a completion only if it fails. The first SEND is posted on another thread.
bool VerbsSentNotes::is_counted(const ibv_wc& completion) {
  return kind_of(completion) != kWrite && kind_of(completion) != kFirst;
}

void VerbsSentNotes::take(const ibv_wc& completion, std::vector<ibv_wc>& said) {
  const std::uint64_t kind = kind_of(completion);
  if (kind < kWrite) return said.push_back(completion);  // of others
  if (completion.status != IBV_WC_SUCCESS) {
    said.push_back(completion);
    said.back().wr_id = 0;
    return;
  }
  switch (kind) {
    case kFirst: has_begun_ = true; return;
    case kReceive: return take_word(completion, said);
    case kQuestion:
      is_asking_ = false;
      for (; arrived_ < asked_; ++arrived_) {
        said.emplace_back();
        said.back().opcode = IBV_WC_RDMA_WRITE;
      }
      return;
    default: return;
  }
}

void VerbsSentNotes::take_word(const ibv_wc& completion, std::vector<ibv_wc>& said) {
  if (completion.byte_len == 0) return void(has_begun_ = true);
  ibv_wc came{};
  came.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  if (completion.byte_len != sizeof(std::uint32_t)) came.status = IBV_WC_LOC_LEN_ERR;
  came.imm_data = *word(completion.wr_id & 0xffffff);
  said.push_back(came);
}

}  // namespace anello::transport
