// Broadcasts rank root's weights, buffers or optimizer state.
#include "gradient_sync/agreement.h"
#include "gradient_sync/collective.h"
#include "gradient_sync/gradient_sync.h"

#include <optional>

namespace anello::gradient_sync {
namespace {

// Smaller tensors are sent together, up to this many bytes at a time.
constexpr std::size_t kAlone = 64 * 1024, kTogether = 1024 * 1024;

std::size_t bytes_of(const anello_tensor_t& tensor) { return tensor.count * anello_dtype_size(tensor.dtype); }

std::string described(const anello_tensor_t& tensor) {
  return text(tensor.count, ' ', anello_dtype_name(tensor.dtype));
}

}  // namespace

void GradientSync::broadcast(std::size_t count, int root,
                             const std::function<const anello_tensor_t&(std::size_t i)>& tensor) {
  require_not_joined("broadcast");
  final([&] { require_between_steps("broadcast"); });
  // Refused arguments end the call on all ranks, but not the object.
  std::vector<anello_tensor_t> tensors;
  std::optional<Error> objection;
  try {
    if (root < 0 || root >= size_)
      throw Error(ANELLO_ERR_ARGUMENT, text("broadcast: root ", root, " is not one of ", size_, " ranks"));
    for (std::size_t i = 0; i < count; ++i) {
      tensors.push_back(tensor(i));
      // A device copies from and to the host as well.
      if (!place_->has_streams()) place_->check(tensors[i].data, bytes_of(tensors[i]), text("broadcast: tensor ", i));
    }
  } catch (const Error& error) {
    objection = error;
  } catch (const std::bad_alloc&) {
    objection = Error(ANELLO_ERR_RESOURCE, "no memory for a list of tensors");
  }
  agree(all_, objection);
  final([&] {
    agree_on(all_, "root of broadcast", {std::to_string(root)});
    std::vector<std::string> said;
    for (const anello_tensor_t& one : tensors) said.push_back(described(one));
    agree_on(all_, "broadcast: tensor", said);

    Memory together;
    std::size_t used = 0;
    std::vector<std::size_t> members;
    // In the default stream, like all calls that wait.
    const auto copy_each = [&](bool into) {
      std::size_t at = 0;
      for (const std::size_t i : members) {
        std::byte* const part = together.get() + at;
        void* const own = tensors[i].data;
        place_->copy(into ? part : own, into ? own : part, bytes_of(tensors[i]), nullptr);
        at += bytes_of(tensors[i]);
      }
      await_stream(nullptr);
    };
    const auto send_together = [&] {
      if (members.empty()) return;
      if (rank_ == root) copy_each(true);
      all_.broadcast(together.get(), used, ANELLO_BYTE, root, "broadcast of small tensors");
      if (rank_ != root) copy_each(false);
      used = 0;
      members.clear();
    };
    for (std::size_t i = 0; i < count; ++i) {
      const anello_tensor_t& one = tensors[i];
      const std::size_t bytes = bytes_of(one);
      if (bytes >= kAlone) {
        all_.broadcast(one.data, one.count, one.dtype, root,
                       one.name != nullptr ? text("broadcast of ", one.name) : text("broadcast of tensor ", i));
      } else if (bytes > 0) {
        if (used + bytes > kTogether) send_together();
        if (!together) together = place_->allocate(kTogether);
        used += bytes;
        members.push_back(i);
      }
    }
    send_together();
  });
}

}  // namespace anello::gradient_sync
