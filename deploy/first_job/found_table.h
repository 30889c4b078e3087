// What some lines of a text file show of its columns, as a value.
#ifndef TETHYS_DEPLOY_FIRST_JOB_FOUND_TABLE_H_
#define TETHYS_DEPLOY_FIRST_JOB_FOUND_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace tethys {

struct FoundColumn {
  bool integers = true;   // Every value is an integer of at least 0.
  int64_t most = 0;       // The largest value, if all are integers.
  int64_t different = 0;  // The number of different values.
  double commonest = 0;   // The share of lines that have the most frequent value.
  bool bytes() const { return integers && most <= 255; }
};

struct FoundTable {
  std::string name = {};  // The name of the file.
  char delimiter = ',';
  std::vector<std::string> header = {};  // The names of the columns; empty without a header.
  int64_t columns = 0;
  int64_t lines = 0;                  // The number of lines that were looked at.
  FoundColumn first = {}, last = {};  // The two columns that may hold labels without being named.
  bool bytes_between = false;         // Every value of the other columns is an integer from 0 to 255.
};

// Looks at lines that are evenly spread over the file PATH, at most 10,000. Blocks on reads of the whole
// file. Has the errors of CsvLines::Find (runtime/data/csv_lines.h).
absl::StatusOr<FoundTable> LookAtTable(const std::string& path, const std::string& name);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_FIRST_JOB_FOUND_TABLE_H_
