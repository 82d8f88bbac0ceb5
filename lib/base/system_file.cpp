#include "base/system_file.h"

#include <fstream>

namespace anello {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace anello
