#include "benchmarks/linear_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace castor {

double LinearProgram::Excess(const std::vector<double>& point) const {
  double excess = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    excess = std::max({excess, -point[v], point[v] - variables[v].at_most});
  }
  for (const Row& row : rows) {
    double sum = -row.at_most;
    double largest = std::max(1e-6, std::abs(row.at_most));
    for (const auto& [v, factor] : row.terms) {
      sum += factor * point[v];
      largest = std::max(largest, std::abs(factor * point[v]));
    }
    excess = std::max(excess, sum / largest);
  }
  return excess;
}

std::string LinearProgram::ToMps() const {
  std::vector<std::vector<std::pair<size_t, double>>> columns(variables.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    std::map<int64_t, double> sums;
    for (const auto& [v, factor] : rows[r].terms) sums[v] += factor;
    for (const auto& [v, factor] : sums) columns[v].push_back({r, factor});
  }
  std::string mps = "NAME plan\nROWS\n N step\n";
  for (size_t r = 0; r < rows.size(); ++r)
    absl::StrAppend(&mps, " L r", r, "\n");
  mps += "COLUMNS\n";
  bool whole = false;
  const auto mark = [&](bool now) {
    if (now == whole) return;
    whole = now;
    absl::StrAppend(&mps, " M 'MARKER' '", now ? "INTORG" : "INTEND", "'\n");
  };
  for (size_t v = 0; v < variables.size(); ++v) {
    mark(variables[v].whole);
    if (v == 0) mps += " v0 step 1\n";
    for (const auto& [r, factor] : columns[v]) {
      absl::StrAppendFormat(&mps, " v%d r%d %.12g\n", v, r, factor);
    }
  }
  mark(false);
  mps += "RHS\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].at_most == 0) continue;
    absl::StrAppendFormat(&mps, " b r%d %.12g\n", r, rows[r].at_most);
  }
  mps += "BOUNDS\n";
  for (size_t v = 0; v < variables.size(); ++v) {
    if (std::isinf(variables[v].at_most)) continue;
    absl::StrAppendFormat(&mps, " UP x v%d %.12g\n", v, variables[v].at_most);
  }
  mps += "ENDATA\n";
  return mps;
}

}  // namespace castor
