#pragma once
// The one thread of the process that works for all of its jobs: it accepts, shakes hands, passes descriptors, sees
// deaths and compares calls, and sleeps in epoll otherwise. It starts with the first ServiceHold and ends with the
// last. All signals are blocked in it. Everything below control runs on it unless it says otherwise.
//
// How coroutines live and end, here and in bootstrap:
//   - A coroutine owns what it touches. It is given shared pointers, or copies; after each co_await nothing else need
//     still be there, and its frame may be destroyed at each co_await. By reference it holds only the Service, its
//     io_context, and what the coroutine that awaits it owns. A weak pointer is locked anew after each co_await.
//   - The service destroys nothing before its coroutines have ended. At its end it cancels whatever they wait for: from
//     then on each co_await throws asio::system_error, which is no Error, so that nobody takes it for news of a peer,
//     and spawn() starts nothing.
#include <asio.hpp>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

namespace anello::control {

template <class T = void>
using Task = asio::awaitable<T>;

class Door;

class Service {
 public:
  Service();
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  asio::io_context& io() { return io_; }
  Door& door() { return *door_; }
  // Any thread: runs work on the service thread, soon.
  void post(std::function<void()> work);
  // Service thread only: runs a coroutine. What it throws is logged with its name and goes no further.
  void spawn(std::string what, Task<> task);

 private:
  friend class ServiceHold;
  using Coroutines = std::list<asio::cancellation_signal>;
  void run();
  void end_coroutines();
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Coroutines coroutines_;  // by what cancels them
  Coroutines ended_;       // asio may look at a signal until its coroutine's last handler has returned
  bool ending_ = false;
  std::shared_ptr<Door> door_;
};

// Keeps the service thread alive. May be let go on any thread, that one included.
class ServiceHold {
 public:
  ServiceHold() = default;
  static ServiceHold take();  // throws Error: no thread or descriptor to be had
  ServiceHold(ServiceHold&& other) noexcept = default;
  ServiceHold& operator=(ServiceHold&& other) noexcept;
  ~ServiceHold();
  Service* operator->() const { return service_.get(); }
  Service& operator*() const { return *service_; }
  explicit operator bool() const { return service_ != nullptr; }

 private:
  void let_go();
  std::shared_ptr<Service> service_;
};

// Lets a coroutine wait for something that another one brings about.
class Notice {
 public:
  explicit Notice(asio::io_context& io) : timer_(io, asio::steady_timer::time_point::max()) {}
  void notify() { timer_.cancel(); }
  // Returns after a notify that comes after this call, or after ms milliseconds.
  Task<> wait(std::int64_t ms);

 private:
  asio::steady_timer timer_;
};

Task<> sleep_ms(asio::io_context& io, std::int64_t ms);

}  // namespace anello::control
