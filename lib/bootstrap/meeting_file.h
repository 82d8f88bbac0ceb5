#pragma once
// A meeting through a file that all ranks see: rank 0 writes there where it listens and how to prove oneself (a unique
// id), and removes it once all have met. The file is for its owner alone, like every secret.
//
// A file that a killed job has left is no obstacle. Rank 0 asks the process that the file names for the meeting, and
// takes the file over if that process does not know it. Another rank that finds nobody there waits for the file to
// change. If the meeting is still open, another job uses the file, and rank 0 fails and says so.
#include "bootstrap/meeting.h"

#include <anello/anello.h>

#include <optional>
#include <string>

namespace anello::bootstrap {

// What a file says. Two of one job differ in their id.
struct MeetingNote {
  std::string job;   // the launcher's name for the job; empty: it has none
  std::string host;  // of the process that wrote it, for people
  std::int64_t pid = 0;
  anello_unique_id_t id{};
};

class MeetingFile {
 public:
  explicit MeetingFile(std::string path) : path_(std::move(path)) {}

  // Nothing: there is no file, or it is not complete. Throws Error if it is another user's, open to others, or no note.
  std::optional<MeetingNote> read() const;
  // Whether the file still says the same.
  bool says(const MeetingNote& note) const;
  // Creates the file. False: there is one. Throws Error.
  bool create(const MeetingNote& note) const;
  // Puts note in the place of what is there. Throws Error.
  void replace(const MeetingNote& note) const;
  // Removes the file if it still says this.
  void remove(const MeetingNote& note) const;
  const std::string& path() const { return path_; }

 private:
  std::string write_beside(const MeetingNote& note) const;

  std::string path_;
};

// Parses a file's contents; no side effects. Throws Error.
MeetingNote parse_note(const std::string& bytes, const std::string& path);

}  // namespace anello::bootstrap
