#pragma once
// Rows as a table for people, as JSON, and as Prometheus's text format.
#include "top/rows.h"

#include <string>
#include <vector>

namespace top {

// all: also communicators that did nothing between the looks, of ranks that have another one.
std::string as_table(const std::vector<Row>& rows, bool all);
std::string as_json(const std::vector<Row>& rows);
std::string as_prometheus(const std::vector<Row>& rows);

}  // namespace top
