#pragma once
// Runs the operations' exchanges and barriers on their communicator's board, one after the other, and chooses the
// schedule of a call that may go over peers' memory. All ranks read identical lines, so all draw identical conclusions.
// Requires the rank's lock.
#include "executor/announcing.h"
#include "executor/group.h"
#include "executor/line.h"
#include "executor/parts.h"
#include "progress/source.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

class Agreement final : public progress::Source {
 public:
  explicit Agreement(Parts& parts);

  // Sets the round of the operation's next line.
  void begin_round(Operation& operation, Round round);
  // Publishes and reads lines, as far as it can without waiting.
  void poll(Group& group);
  // Adds the group to those whose lines are read whenever this rank moves anything.
  void list(Group& group);
  // Reads the lines of all groups that wait for some. True: something moved.
  bool move() override;
  // Called when an exchange has ended.
  void leave_exchange(Group& group);
  // Notes that the group's operation is over, but that its lines have not all been seen.
  void note_behind(Group& group);
  // Called when a requested region has come or is known not to come.
  void region_came();
  // Called when the operation, or every operation of the group, has ended.
  void forget(Operation& operation);
  void forget_lines(Group& group);
  void forget_behind(Group& group);

  bool is_listed() const { return !on_boards_.empty(); }
  bool awaits_elsewhere() const;
  bool is_first_of_two() const { return on_boards_.front()->board.is_first_of_two(); }
  void about_to_sleep() override;
  // Whether the operation waits for memory to be mapped.
  bool is_mapping(const Operation& operation) const;
  void reserve(std::size_t groups);

  // ---- Entering a call (entering.cpp, announcing.cpp); the fast path uses these functions, too ----
  static constexpr std::uint32_t kUndecided = ~std::uint32_t{0};
  // An upper bound on the bytes of the operation's next line.
  static std::size_t line_bytes(const Operation& operation);
  void publish_line(Operation& operation);
  // Decides whether this rank prefers to stage the call. Most calls leave nothing to decide.
  void choose_way(Operation& operation) const {
    if (operation.plans->may_be_staged || operation.stays_away) take_turn(operation);
  }
  // Enters as the last call with these buffers did, if that entry is known to be valid still.
  bool enters_again(Operation& operation);
  // Returns the next step of the call's plan where the lines alone determine it. kUndecided: they do not.
  std::uint32_t decide_by_lines(Operation& operation);
  // Like decide_by_lines, where this rank has entered as before; then the others nearly always have, too.
  std::uint32_t decide_as_before(Operation& operation);

 private:
  void lines_came(Operation& operation, Round round);
  void entries_came(Operation& operation);
  Lacking lacking_of(const Operation& operation) const;
  void all_agreed(Operation& operation);
  void all_announced(Operation& operation);
  void map_announced(Operation& operation);
  bool has_mapped(const Operation& operation, int rank) const;
  bool can_read(const Operation& operation, int rank) const;
  bool reaches_by_address(const Operation& operation, int rank) const;
  bool find_buffers(Operation& operation, schedule::Reach reach);
  void take_schedule(Operation& operation, schedule::Reach reach);
  void begin_reaching(Operation& operation, std::uint32_t first);

  void take_turn(Operation& operation) const;
  static void take_plain(Operation& operation);
  void announce(Operation& operation);
  void publish_entry(Operation& operation);

  // Staging memory (staging_rounds.cpp)
  void set_up_staging(Operation& operation);
  static void take_staging(Operation& operation);
  static void stage_early(Operation& operation);
  void staging_agreed(Operation& operation, bool everywhere);

  Parts& parts_;
  control::Job& job_;
  Routes& routes_;
  Outcomes& outcomes_;
  std::vector<Group*> on_boards_;    // groups that wait for other ranks' lines
  std::vector<Group*> behind_;       // groups that have ended an exchange without seeing all lines
  std::vector<Operation*> mapping_;  // entering operations, until the announced memory is mapped
};

}  // namespace anello::executor
