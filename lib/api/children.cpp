// Communicators that are made from others.
#include "api/call_group.h"
#include "api/making.h"
#include "base/text.h"
#include "communicator/split.h"

#include <algorithm>
#include <vector>

using namespace anello;
using namespace anello::api;

namespace {

class OfSplit : public Making {
 public:
  OfSplit(std::shared_ptr<Communicator> parent, std::unique_ptr<Split> split, anello_comm_t* result)
      : parent_(std::move(parent)), split_(std::move(split)), result_(result) {}
  void finish() override { *result_ = publish(parent_->finish_split(*split_)); }

 private:
  std::shared_ptr<Communicator> parent_;
  std::unique_ptr<Split> split_;
  anello_comm_t* result_;
};

// The request to a function of this file: a seat in a new communicator, and the way to make it.
struct Asked {
  const char* name;
  Communicator::Seat seat;
  int record_kind;
  anello_comm_t* result;
  bool blocking;
  anello_request_t* request = nullptr;
};

void refuse_unless(bool right, Communicator& communicator, const Asked& asked, const std::string& why) {
  if (!right) refuse_collective(communicator, asked.record_kind, text(asked.name, ": ", why));
}

anello_result_t split(anello_comm_t comm, const std::shared_ptr<Communicator>& parent, const Asked& asked) {
  refuse_unless(asked.result != nullptr, *parent, asked, "result is NULL");
  refuse_unless(asked.blocking || asked.request != nullptr, *parent, asked, "request is NULL");
  const int color = asked.seat.color;
  refuse_unless(color >= 0 || color == ANELLO_UNDEFINED, *parent, asked,
                text("color ", color, " is negative and not ANELLO_UNDEFINED"));
  CallGroup* const group = asked.blocking ? CallGroup::current() : nullptr;
  if (asked.blocking && group == nullptr) {
    *asked.result = publish(parent->split(asked.seat, asked.record_kind));
    return ANELLO_OK;
  }
  auto posted = parent->post_split(asked.seat, asked.record_kind);
  executor::Operation* const operation = posted->operation;
  Pending pending{{{}, Posted(operation)}, parent, comm};
  pending.making = std::make_shared<OfSplit>(parent, std::move(posted), asked.result);
  const anello_request_t request = request_of(std::move(pending));
  if (group != nullptr) {
    group->add(request, nullptr);
  } else {
    *asked.request = request;
  }
  return ANELLO_OK;
}

}  // namespace

extern "C" {

anello_result_t anello_comm_dup(anello_comm_t comm, anello_comm_t* result) {
  return with(comm, [&](const std::shared_ptr<Communicator>& parent) {
    return split(comm, parent, {"anello_comm_dup", {0, parent->rank()}, recorder::kDupCall, result, true});
  });
}

anello_result_t anello_comm_idup(anello_comm_t comm, anello_comm_t* result, anello_request_t* request) {
  return with(comm, [&](const std::shared_ptr<Communicator>& parent) {
    return split(comm, parent, {"anello_comm_idup", {0, parent->rank()}, recorder::kDupCall, result, false, request});
  });
}

anello_result_t anello_comm_split(anello_comm_t comm, int color, int key, anello_comm_t* result) {
  return with(comm, [&](const std::shared_ptr<Communicator>& parent) {
    return split(comm, parent, {"anello_comm_split", {color, key}, recorder::kSplitCall, result, true});
  });
}

anello_result_t anello_comm_isplit(anello_comm_t comm, int color, int key, anello_comm_t* result,
                                   anello_request_t* request) {
  return with(comm, [&](const std::shared_ptr<Communicator>& parent) {
    return split(comm, parent, {"anello_comm_isplit", {color, key}, recorder::kSplitCall, result, false, request});
  });
}

anello_result_t anello_comm_split_host(anello_comm_t comm, int key, anello_comm_t* result) {
  return with(comm, [&](const std::shared_ptr<Communicator>& parent) {
    return split(comm, parent,
                 {"anello_comm_split_host", {parent->color_of_host(), key}, recorder::kSplitCall, result, true});
  });
}

anello_result_t anello_comm_create_group(anello_comm_t comm, int count, const int* ranks, int tag,
                                         anello_comm_t* result) {
  return with(comm, [&](const std::shared_ptr<Communicator>& parent) {
    refuse_in_group("anello_comm_create_group");
    const auto require = [](bool right, const auto&... why) {
      if (!right) throw Error(ANELLO_ERR_ARGUMENT, text("anello_comm_create_group: ", why...));
    };
    require(result != nullptr, "result is NULL");
    require(ranks != nullptr && count > 0, "there are no ranks in the list");
    require(tag >= 0 && tag < executor::kInternalTags, "tag ", tag, " is not in 0 to ", executor::kInternalTags - 1);
    const std::vector<int> members(ranks, ranks + count);
    std::vector<bool> seen(std::size_t(parent->size()), false);
    for (const int member : members) {
      require(member >= 0 && member < parent->size(), member, " is not a rank of this communicator (0 to ",
              parent->size() - 1, ")");
      require(!seen[std::size_t(member)], "rank ", member, " is in the list twice");
      seen[std::size_t(member)] = true;
    }
    require(seen[std::size_t(parent->rank())], "this rank, ", parent->rank(),
            ", is not in the list; its members alone call this");
    *result = publish(parent->create_group(members, tag));
    return ANELLO_OK;
  });
}

}  // extern "C"
