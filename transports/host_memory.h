#pragma once
// Remote memory that a processor of this rank reaches by itself, by copies or a system call. Transfers that end later
// move piece by piece, in the order in which they were posted.
#include "memory/process_memory.h"
#include "transports/remote_memory.h"

#include <atomic>
#include <deque>

namespace anello::transport {

class HostMemory : public RemoteMemory {
 public:
  // A thread that withdraws a transfer waits while a piece of it moves.
  static constexpr std::size_t kPieceBytes = 256 * 1024;

  std::byte* map(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes,
                 std::shared_ptr<const void>* kept) final;
  int get_now(const Transfer& transfer) final;
  int put_now(const Transfer& transfer) final;
  void get(const Transfer& transfer) final { moving_.push_back({transfer, false}); }
  void put(const Transfer& transfer) final { moving_.push_back({transfer, true}); }
  std::optional<Transferred> poll() final;
  void withdraw(Token token) final;
  bool is_pending() const final { return !moving_.empty(); }
  bool begin_work() final;
  void work() final;

 protected:
  // The way to a peer's memory: an address of this process, or the peer's process to read.
  struct Way {
    std::byte* mapped = nullptr;
    std::shared_ptr<const void> kept;  // keeps it mapped
    const memory::Sample* process = nullptr;
  };
  // Returns 0, or the errno with which a transfer ends. Requires: the key is ready.
  virtual int find_way(const RemotePeer& peer, const RemoteAddress& at, std::size_t bytes, Way* way) = 0;

 private:
  struct Moving {
    Transfer rest;
    bool puts = false;
  };
  static int move(const Way& way, const Transfer& transfer, bool puts);
  int move_now(const Transfer& transfer, bool puts);
  void take_piece_in();

  std::deque<Moving> moving_;
  // The piece of the first transfer that work() moves; none if its bytes are 0.
  Moving piece_;
  Way piece_way_;
  int piece_error_ = 0;
  std::atomic<bool> working_{false};
};

}  // namespace anello::transport
