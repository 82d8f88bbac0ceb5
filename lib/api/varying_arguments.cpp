#include "api/varying_arguments.h"

#include "api/arguments.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "base/text.h"
#include "communicator/in_place.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace anello::api {
namespace {

// The parts of one buffer, as the caller gives them.
struct Parts {
  const char* counts_name;
  const std::size_t* counts;
  const char* displs_name;
  const std::size_t* displs;  // nullptr if parts follow each other
};

class Check {
 public:
  Check(const anello_call_t& call, int rank, int size)
      : call_(call),
        rank_(rank),
        size_(size),
        element_(dtype_bytes(call.dtype)),
        in_place_(in_place(call, rank) != InPlace::no) {}

  Error run() {
    const bool root = rank_ == call_.peer;
    const Parts sends{"sendcounts", call_.sendcounts, call_.kind == ANELLO_SCATTERV ? "displs" : "sdispls",
                      call_.sdispls};
    const Parts receives{"recvcounts", call_.recvcounts, call_.kind == ANELLO_ALLTOALLV ? "rdispls" : "displs",
                         call_.rdispls};
    if (kind_has_root(call_.kind) && !root) {
      if ((call_.kind == ANELLO_GATHERV ? call_.sendbuf : call_.recvbuf) == ANELLO_IN_PLACE) {
        return wrong("ANELLO_IN_PLACE is for the root, rank ", call_.peer, "; this is rank ", rank_);
      }
      if (call_.count > SIZE_MAX / 2 / element_) return wrong("count ", call_.count, " is too large");
      const void* const buffer = call_.kind == ANELLO_GATHERV ? call_.sendbuf : call_.recvbuf;
      if (call_.count > 0 && buffer == nullptr)
        return wrong(call_.kind == ANELLO_GATHERV ? "sendbuf" : "recvbuf", " is NULL");
      return {};
    }
    switch (call_.kind) {
      case ANELLO_SCATTERV: return check_scatter(sends);
      case ANELLO_REDUCE_SCATTER: return check_reduce({"recvcounts", call_.recvcounts, nullptr, nullptr});
      case ANELLO_ALLTOALLV: return check_alltoall(sends, receives);
      default: return check_gather(receives);
    }
  }

 private:
  template <class... Words>
  Error wrong(const Words&... words) const {
    return {ANELLO_ERR_ARGUMENT, text(named(call_), words...)};
  }

  // Sets *bytes to the end of the last part.
  Error check_parts(const Parts& parts, bool written, std::size_t* bytes) const {
    *bytes = 0;
    if (parts.counts == nullptr) return wrong(parts.counts_name, " is NULL");
    if (parts.displs == nullptr && parts.displs_name != nullptr) return wrong(parts.displs_name, " is NULL");
    const std::size_t most = SIZE_MAX / 2 / element_;
    std::size_t end = 0;
    for (int p = 0; p < size_; ++p) {
      const std::size_t at = parts.displs != nullptr ? parts.displs[p] : end;
      if (parts.counts[p] == 0) continue;
      if (parts.counts[p] > most || at > most - parts.counts[p]) {
        return wrong(parts.counts_name, "[", p, "] is ", parts.counts[p], ", too large from element ", at, " on");
      }
      end = std::max(end, at + parts.counts[p]);
    }
    *bytes = end * element_;
    return written ? check_apart(parts) : Error();
  }
  Error check_apart(const Parts& parts) const {
    std::vector<int> order(static_cast<std::size_t>(size_));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int p) { return parts.counts[p] == 0; });
    std::sort(order.begin(), order.end(), [&](int a, int b) { return parts.displs[a] < parts.displs[b]; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const int a = order[i - 1];
      const int b = order[i];
      if (parts.displs[a] + parts.counts[a] > parts.displs[b]) {
        return wrong("the parts of ranks ", std::min(a, b), " and ", std::max(a, b), " overlap in recvbuf");
      }
    }
    return {};
  }

  Error check_own(const Parts& parts, std::size_t own, const char* own_name) const {
    if (in_place_ || parts.counts[rank_] == own) return {};
    return wrong(own_name, " is ", own, ", but ", parts.counts_name, "[", rank_, "], of this rank, is ",
                 parts.counts[rank_]);
  }

  Error check_buffers(std::size_t send, std::size_t receive) const {
    const bool scatter = call_.kind == ANELLO_SCATTERV;
    if ((scatter ? call_.sendbuf : call_.recvbuf) == ANELLO_IN_PLACE) {
      return scatter ? wrong("sendbuf is ANELLO_IN_PLACE; scatterv takes it as the root's recvbuf")
                     : wrong("recvbuf is ANELLO_IN_PLACE; it goes in place of sendbuf");
    }
    if (receive > 0 && call_.recvbuf == nullptr) return wrong("recvbuf is NULL");
    if (send > 0 && call_.sendbuf == nullptr) return wrong("sendbuf is NULL");
    if (!in_place_ && overlap(call_.sendbuf, send, call_.recvbuf, receive)) {
      return wrong("sendbuf and recvbuf overlap; ", in_place_forms(call_.kind));
    }
    return {};
  }

  Error check_gather(const Parts& receives) const {  // allgatherv, and gatherv's root
    std::size_t bytes = 0;
    if (Error error = check_parts(receives, true, &bytes)) return error;
    if (Error error = check_own(receives, call_.count, "sendcount")) return error;
    return check_buffers(in_place_ ? 0 : call_.count * element_, bytes);
  }
  Error check_scatter(const Parts& sends) const {
    std::size_t bytes = 0;
    if (Error error = check_parts(sends, false, &bytes)) return error;
    if (Error error = check_own(sends, call_.count, "recvcount")) return error;
    return check_buffers(bytes, in_place_ ? 0 : call_.count * element_);
  }
  Error check_reduce(const Parts& receives) const {
    std::size_t bytes = 0;
    if (Error error = check_parts(receives, false, &bytes)) return error;
    return check_buffers(in_place_ ? 0 : bytes, in_place_ ? bytes : receives.counts[rank_] * element_);
  }
  Error check_alltoall(const Parts& sends, const Parts& receives) const {
    std::size_t send = 0;
    std::size_t receive = 0;
    if (Error error = check_parts(receives, true, &receive)) return error;
    if (in_place_) return check_buffers(0, receive);
    if (Error error = check_parts(sends, false, &send)) return error;
    if (Error error = check_own(sends, receives.counts[rank_], "recvcounts of this rank")) return error;
    return check_buffers(send, receive);
  }

  const anello_call_t& call_;
  int rank_;
  int size_;
  std::size_t element_;
  bool in_place_;
};

}  // namespace

Error check_varying(const anello_call_t& call, int rank, int size) { return Check(call, rank, size).run(); }

}  // namespace anello::api
