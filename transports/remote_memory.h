#pragma once
// Remote memory, which a transport may have beside its lanes: a rank loads and stores another rank's memory without
// that rank's help. The owner of a buffer makes a RemoteAddress for it, which travels in a frame or on a board. Its
// peer prepares the key once, and then gets, puts or, if its processor can, loads and stores by itself. Requires the
// rank's lock, except for work().
#include "base/error.h"
#include "memory/buffer.h"
#include "memory/region_cache.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace anello::transport {

// A peer needs this and a buffer's length to reach the buffer. It travels as it is.
struct RemoteAddress {
  std::uint64_t address = 0;  // in its owner's process; 0 if there is no buffer
  std::uint64_t key = 0;      // of the registered memory that holds it; 0 if none does
  std::uint64_t offset = 0;   // in the registered memory
  bool operator==(const RemoteAddress&) const = default;
  explicit operator bool() const { return address != 0; }
};
static_assert(sizeof(RemoteAddress) == 24);

// The address that ranks of one host tell each other. It serves every way to reach a buffer there.
inline RemoteAddress address_of(const memory::Buffer& buffer) {
  return {reinterpret_cast<std::uintptr_t>(buffer.at), buffer.spot.region, buffer.spot.offset};
}

// A peer: its rank in the job, and its index in the host's arena (-1 on another host).
struct RemotePeer {
  int world = -1;
  int local = -1;
};

// The caller's name for a transfer. Pending transfers have different tokens.
using Token = std::uint64_t;

struct Transfer {
  RemotePeer peer;
  RemoteAddress at;  // the peer's buffer
  std::byte* local = nullptr;
  std::size_t bytes = 0;
  Token token = 0;
  memory::Space space = {};  // of `local`
};

// A transfer that has ended.
struct Transferred {
  Token token = 0;
  int error = 0;  // an errno if not all bytes were moved
};

// The device that has some memory. Equal for all ranks of the host.
struct DevicePlace {
  std::array<unsigned char, 16> device{};
  bool runs_together = false;  // whether kernels of several processes run at the same time there, instead of in turns
  bool operator==(const DevicePlace&) const = default;
};

class RemoteMemory {
 public:
  RemoteMemory() = default;
  virtual ~RemoteMemory() = default;
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;

  // Whether a peer's address is valid in this process, without any key.
  virtual bool shares_addresses() const { return false; }
  // Whether getting a long message is better than sending it through the lane.
  virtual bool spares_the_lane() const { return true; }
  // Whether adapters move the bytes between hosts. Peers have no addresses but those of give_out, and this rank reaches
  // those of the peers to which the transport has a lane. The local buffers of transfers must be in regions, too; a
  // transfer with another one ends with ENOTSUP.
  virtual bool is_far() const { return false; }
  // Whether adapters reach that buffer in a device's memory, so that it may be given out and be the local one of a
  // transfer. After a get it has stored all, also for what the device does then. Any thread may ask. Throws
  // std::bad_alloc.
  virtual bool reaches_on_device(const memory::Buffer& /*buffer*/) { return false; }

  // ---- This rank's memory, if it is far for its peers ----
  enum class Use : std::uint8_t { gets, puts };  // of peers
  // Returns the address under which the peer reaches the buffer while *kept lives. Empty: it cannot; use the lane.
  // Throws std::bad_alloc.
  virtual RemoteAddress give_out(const RemotePeer& /*peer*/, const memory::Buffer& /*buffer*/, Use /*use*/,
                                 std::shared_ptr<const void>* /*kept*/) {
    return {};
  }
  // No peer loads or stores anything more under that address's key. Transfers that were under way end with an error.
  virtual void take_back(const RemoteAddress& /*at*/) {}

  // ---- Keys ----
  // The first call requests the key, and answered() brings the answer. Key 0: any memory of the peer's process.
  using State = memory::KeyState;
  virtual State prepare(const RemotePeer& peer, std::uint64_t key) = 0;
  // Makes prepare() try anew if the key was refused: memory of a device may have been refused for the moment.
  virtual void try_again(std::uint64_t /*key*/) {}
  // Whether it has requested the key, and not been answered.
  virtual bool awaits(std::uint64_t /*key*/) const { return false; }
  // Takes control's answer for a requested key. memory is empty if it cannot be had.
  virtual void answered(std::uint64_t /*key*/, memory::PassedRange /*memory*/) {}
  // Returns the address at which this rank's processor can load and store that memory, valid while *kept lives. Null if
  // there is none, or if the memory under the key is too short.
  virtual std::byte* map(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes,
                         std::shared_ptr<const void>* kept) = 0;
  // Where memory lies whose key is ready, if that is on a device.
  virtual std::optional<DevicePlace> place_of(std::uint64_t /*key*/) const { return std::nullopt; }

  // ---- Transfers that the calling thread makes by itself ----
  // Return 0 or an errno: ESRCH if the peer's process has ended, ENOTSUP if the thread cannot move the bytes itself.
  virtual int get_now(const Transfer& transfer) = 0;
  virtual int put_now(const Transfer& transfer) = 0;
  // The name of the system call behind them, for error texts.
  virtual const char* call() const { return "a copy"; }

  // ---- Transfers that end later ----
  // Until it ends, `local` and the peer's memory belong to the transfer. Throws std::bad_alloc.
  virtual void get(const Transfer& transfer) = 0;
  virtual void put(const Transfer& transfer) = 0;
  // Returns a transfer that has ended. Empty if none has.
  virtual std::optional<Transferred> poll() = 0;
  // From here on the transfer loads and stores nothing, and poll() does not return it.
  virtual void withdraw(Token token) = 0;
  // Whether a transfer is pending: it has not ended, or poll() has not returned it yet.
  virtual bool is_pending() const = 0;
  // Whether a processor of this rank must move the bytes. If so, the caller calls work() without the lock, on one
  // thread at a time. It moves a piece, and withdraw() waits for that piece.
  virtual bool begin_work() { return false; }
  virtual void work() {}
};

}  // namespace anello::transport
