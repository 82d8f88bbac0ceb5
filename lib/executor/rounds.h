#pragma once
// Runs the operations' rounds of lines on their communicator's board, one after the other: writes this rank's line, and
// goes on once all lines have come. Requires the rank's lock.
#include "executor/group.h"
#include "executor/parts.h"
#include "progress/source.h"

#include <cstddef>
#include <vector>

namespace anello::executor {

class Rounds final : public progress::Source {
 public:
  explicit Rounds(Parts& parts);

  // Sets the round of the operation's next line.
  void begin(Operation& operation, Round round);
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
  // Called when every operation of the group has ended.
  void forget_lines(Group& group);
  void forget_behind(Group& group);

  bool is_listed() const { return !on_boards_.empty(); }
  bool awaits_elsewhere() const;
  bool is_first_of_two() const { return on_boards_.front()->board.is_first_of_two(); }
  void about_to_sleep() override;
  void reserve(std::size_t groups);

  // An upper bound on the bytes of the operation's next line.
  static std::size_t line_bytes(const Operation& operation);
  void publish_line(Operation& operation);

 private:
  void lines_came(Operation& operation, Round round);

  Parts& parts_;
  std::vector<Group*> on_boards_;  // groups that wait for other ranks' lines
  std::vector<Group*> behind_;     // groups that have ended an exchange without seeing all lines
};

}  // namespace anello::executor
