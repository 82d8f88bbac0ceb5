#pragma once
// What operations do on their communicator's board, one after the other: exchanges and barriers, and how a call that
// may go over peers' memory comes to its schedule. All ranks have the same lines, and find the same from them. Requires
// the rank's lock.
#include "executor/announcing.h"
#include "executor/group.h"
#include "executor/line.h"
#include "executor/parts.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace anello::executor {

class Agreement {
 public:
  explicit Agreement(Parts& parts);

  // The operation's next line is of that round.
  void begin_round(Operation& operation, Round round);
  // Publishes and looks, as far as it goes without waiting.
  void poll(Group& group);
  // The group's lines are looked at whenever this rank moves anything.
  void list(Group& group);
  // Looks at all groups that wait for lines. True: something moved.
  bool move();
  // An exchange has ended.
  void leave_exchange(Group& group);
  // Its lines have not all been seen, though its operation is over.
  void note_behind(Group& group);
  // A region that was asked for has come, or will not.
  void region_came();
  // The operation, or all of the group, has ended.
  void forget(Operation& operation);
  void forget_lines(Group& group);
  void forget_behind(Group& group);

  bool is_listed() const { return !on_boards_.empty(); }
  bool awaits_elsewhere() const;
  bool is_first_of_two() const { return on_boards_.front()->board.is_first_of_two(); }
  void about_to_sleep();
  // Whether it waits for memory to be mapped.
  bool is_mapping(const Operation& operation) const;
  void reserve(std::size_t groups);

  // ---- Entering a call (entering.cpp, announcing.cpp); the fast path uses these, too ----
  static constexpr std::uint32_t kNotTold = ~std::uint32_t{0};
  // Of its next line, at most.
  static std::size_t line_bytes(const Operation& operation);
  void publish_line(Operation& operation);
  // Decides whether this rank would rather have the call staged. Most calls have nothing to ask.
  void choose_way(Operation& operation) const {
    if (operation.plans->may_be_staged || operation.stays_away) take_turn(operation);
  }
  // As the last call with these buffers did, if that is known to hold still.
  bool enters_again(Operation& operation);
  // Where the lines alone tell how a call goes on: the step of its plan that is next. kNotTold: it takes more than
  // that.
  std::uint32_t told_by_lines(Operation& operation);
  // The same where this rank has entered as before: so have the others, nearly always.
  std::uint32_t told_again(Operation& operation);

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
  std::vector<Group*> on_boards_;    // groups that wait for lines of others
  std::vector<Group*> behind_;       // that have ended an exchange without seeing all lines
  std::vector<Operation*> mapping_;  // entering, until what was announced is mapped
};

}  // namespace anello::executor
