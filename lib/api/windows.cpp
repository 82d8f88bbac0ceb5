// Windows: memory that the ranks of one host share.
#include "api/call_group.h"
#include "api/tables.h"
#include "base/text.h"
#include "communicator/window.h"

using namespace anello;
using namespace anello::api;

namespace {

using Windows = HandleTable<std::shared_ptr<Window>, Counting::of_all>;

Windows& windows() {
  static Windows* const table = new Windows;  // leaked: calls may come from static destructors
  return *table;
}

std::uintptr_t number(anello_window_t window) { return reinterpret_cast<std::uintptr_t>(window); }

}  // namespace

extern "C" {

anello_result_t anello_window_create(size_t bytes, anello_comm_t comm, void** base, anello_window_t* window) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    refuse_in_group("anello_window_create");
    if (base == nullptr || window == nullptr) {
      refuse_collective(*communicator, recorder::kWindowCreateCall,
                        text("anello_window_create: ", base == nullptr ? "base" : "window", " is NULL"));
    }
    auto made = Window::create(communicator, nullptr, bytes);
    *base = made->own().data;
    *window = reinterpret_cast<anello_window_t>(windows().add(std::move(made)));
    return ANELLO_OK;
  });
}

anello_result_t anello_window_register(void* base, size_t bytes, anello_comm_t comm, anello_window_t* window) {
  return with(comm, [&](const std::shared_ptr<Communicator>& communicator) {
    refuse_in_group("anello_window_register");
    if ((base == nullptr && bytes > 0) || window == nullptr) {
      refuse_collective(*communicator, recorder::kWindowCreateCall,
                        text("anello_window_register: ", window == nullptr ? "window" : "base", " is NULL"));
    }
    *window = reinterpret_cast<anello_window_t>(windows().add(Window::create(communicator, base, bytes)));
    return ANELLO_OK;
  });
}

anello_result_t anello_window_peer(anello_window_t window, int rank, void** pointer, size_t* bytes) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    const Windows::Use use(windows(), number(window));
    if (!use) throw Error(ANELLO_ERR_STATE, "the window was freed or never existed");
    if (pointer == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "anello_window_peer: pointer is NULL");
    const int size = (*use)->communicator()->size();
    if (rank < 0 || rank >= size) {
      throw Error(ANELLO_ERR_ARGUMENT,
                  text("anello_window_peer: ", rank, " is not a rank of its communicator (0 to ", size - 1, ")"));
    }
    const Window::Part part = (*use)->part(rank);
    *pointer = part.data;
    if (bytes != nullptr) *bytes = part.bytes;
    return ANELLO_OK;
  });
}

anello_result_t anello_window_free(anello_window_t* window) {
  return guard(ANELLO_COMM_NULL, [&] {
    refuse_here();
    if (window == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "anello_window_free: window is NULL");
    if (*window == ANELLO_WINDOW_NULL) return ANELLO_OK;
    refuse_in_group("anello_window_free");
    const auto gone = windows().remove(number(*window), [](const std::shared_ptr<Window>&) {});
    if (!gone) throw Error(ANELLO_ERR_STATE, "the window was freed before or never existed");
    *window = ANELLO_WINDOW_NULL;
    if (const Error error = (*gone)->close()) throw error;
    return ANELLO_OK;
  });
}

}  // extern "C"
