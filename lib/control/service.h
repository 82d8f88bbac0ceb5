#pragma once
// The one thread of the process that works for all of its jobs: it accepts connections, shakes hands, passes
// descriptors, detects deaths and compares calls, and otherwise sleeps in epoll. It starts with the first ServiceHold
// and ends with the last. All signals are blocked in it. Everything in control runs on it unless its comment says
// otherwise.
//
// How coroutines live and end, here and in bootstrap:
//   - A coroutine owns the objects that it uses. It gets shared pointers or copies; other objects may be gone after
//     each co_await, and its frame may be destroyed at each co_await. By reference it holds only the Service, its
//     io_context, and objects that the coroutine that awaits it owns. It locks weak pointers again after each co_await.
//   - The service destroys nothing before its coroutines have ended. At its end it cancels everything that they wait
//     for: from then on each co_await throws asio::system_error, which is not an Error, so no code takes it for news of
//     a peer, and spawn() starts nothing.
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
  // Service thread only: runs a coroutine. Its exceptions are logged with its name and not passed on.
  void spawn(std::string what, Task<> task);

 private:
  friend class ServiceHold;
  using Coroutines = std::list<asio::cancellation_signal>;
  void run();
  void end_coroutines();
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  Coroutines coroutines_;  // keyed by the object that cancels them
  Coroutines ended_;       // asio may access a signal until its coroutine's last handler has returned
  bool ending_ = false;
  std::shared_ptr<Door> door_;
};

// Keeps the service thread alive. Any thread may release it, including the service thread.
class ServiceHold {
 public:
  ServiceHold() = default;
  static ServiceHold take();  // throws Error: no thread or descriptor is available
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

// Lets a coroutine wait for an event that another one causes.
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
