#pragma once
// Remote memory, which a transport may have beside its lanes: a rank loads and stores the memory of another one, which
// need not do anything for it. The owner of a buffer makes a RemoteAddress of it, which travels in a frame or on a
// board; its peer prepares the key once, and then gets, puts or, where processors can do that, loads and stores by
// itself. Requires the rank's lock, apart from work().
#include "base/error.h"
#include "memory/buffer.h"
#include "memory/region_cache.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace anello::transport {

// What a peer needs to reach a buffer, beside its length. It travels as it is.
struct RemoteAddress {
  std::uint64_t address = 0;  // in its owner's process; 0: there is no buffer
  std::uint64_t key = 0;      // of the registered memory that it lies in; 0: in none
  std::uint64_t offset = 0;   // there
  bool operator==(const RemoteAddress&) const = default;
  explicit operator bool() const { return address != 0; }
};
static_assert(sizeof(RemoteAddress) == 24);

// What a host's ranks tell each other of a buffer: every way of reaching it that a host has.
inline RemoteAddress address_of(const memory::Buffer& buffer) {
  return {reinterpret_cast<std::uintptr_t>(buffer.at), buffer.spot.region, buffer.spot.offset};
}

// A peer: its rank in the job, and its index in the host's arena (-1: it is on another host).
struct RemotePeer {
  int world = -1;
  int local = -1;
};

// The caller's name for a transfer. No two that are pending have the same.
using Token = std::uint64_t;

struct Transfer {
  RemotePeer peer;
  RemoteAddress at;  // there
  std::byte* local = nullptr;
  std::size_t bytes = 0;
  Token token = 0;
};

// A transfer that has ended.
struct Transferred {
  Token token = 0;
  int error = 0;  // an errno: the bytes have not been moved, or only some of them
};

class RemoteMemory {
 public:
  RemoteMemory() = default;
  virtual ~RemoteMemory() = default;
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  // Whether it reaches memory of that space.
  virtual bool serves(memory::Space::Kind kind) const { return kind == memory::Space::Kind::host; }
  // Whether a peer's address is one of this process, without any key.
  virtual bool shares_addresses() const { return false; }
  // Whether a long message had better be got than sent through the lane.
  virtual bool spares_the_lane() const { return true; }

  // ---- Keys ----
  // Asks for the key, the first time. Key 0: any memory of the peer's process. answered() brings what was asked for.
  using State = memory::KeyState;
  virtual State prepare(const RemotePeer& peer, std::uint64_t key) = 0;
  // What control has brought for a key that was asked for. memory empty: it cannot be had.
  virtual void answered(std::uint64_t /*key*/, memory::PassedRange /*memory*/) {}
  // Where this rank's processor itself can load and store that memory, for as long as *kept lives. Null: nowhere, or
  // the memory under the key is shorter than that.
  virtual std::byte* map(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes,
                         std::shared_ptr<const void>* kept) = 0;

  // ---- Transfers that the calling thread makes by itself ----
  // Returns 0, or an errno: ESRCH where the peer's process has ended, ENOTSUP where only an adapter moves bytes.
  virtual int get_now(const Transfer& transfer) = 0;
  virtual int put_now(const Transfer& transfer) = 0;
  // The system call that these make, for error texts.
  virtual const char* call() const { return "a copy"; }

  // ---- Transfers that end later ----
  // From here on until its end, local and the peer's memory belong to the transfer. Throws std::bad_alloc.
  virtual void get(const Transfer& transfer) = 0;
  virtual void put(const Transfer& transfer) = 0;
  // One that has ended. Empty: none has.
  virtual std::optional<Transferred> poll() = 0;
  // From here on the transfer loads and stores nothing, and poll() does not return it.
  virtual void withdraw(Token token) = 0;
  // Whether any is pending, of whose end no descriptor tells.
  virtual bool is_pending() const = 0;
  // Whether a processor of this rank must move the bytes. Then the caller calls work(), which moves a piece of them,
  // without the lock and on one thread at a time; withdraw() waits for that piece.
  virtual bool begin_work() { return false; }
  virtual void work() {}
};

}  // namespace anello::transport
