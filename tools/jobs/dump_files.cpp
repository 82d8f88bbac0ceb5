#include "jobs/dump_files.h"

#include "recorder/dump.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace jobs {
namespace {

namespace fs = std::filesystem;
using anello::recorder::Snapshot;

bool is_dump(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.rfind("anello-", 0) == 0 && path.extension() == ".json";
}

Snapshot read_file(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  if (failed) throw std::runtime_error(path.string() + ": " + failed.message());
  if (bytes > anello::recorder::kMostDumpBytes)
    throw std::runtime_error(path.string() + " is too long for what a rank writes");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  if (!in) throw std::runtime_error(path.string() + " cannot be read");
  try {
    return anello::recorder::from_json(content.str());
  } catch (const std::exception& wrong) {
    throw std::runtime_error(
        path.string() + ": " + wrong.what() +
        (is_dump(path) ? "" : "; dumps are the files anello-JOB-rankN-commC.json in ANELLO_DUMP_DIR"));
  }
}

}  // namespace

std::vector<Snapshot> read_dumps(const std::vector<std::string>& paths) {
  std::vector<Snapshot> dumps;
  for (const std::string& each : paths) {
    std::error_code failed;
    if (!fs::is_directory(each, failed)) {
      dumps.push_back(read_file(each));
      continue;
    }
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(each))
      if (is_dump(entry.path())) files.push_back(entry.path());
    if (files.empty())
      throw std::runtime_error(each + " has no file anello-*.json: was it ANELLO_DUMP_DIR of the job?");
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) dumps.push_back(read_file(file));
  }
  return dumps;
}

}  // namespace jobs
