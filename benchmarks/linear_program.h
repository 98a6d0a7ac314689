// A linear program, as a solver outside of Castor reads it.
#ifndef CASTOR_BENCHMARKS_LINEAR_PROGRAM_H_
#define CASTOR_BENCHMARKS_LINEAR_PROGRAM_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace castor {

// Variables are at least 0; each row's sum is at most its bound. Variable 0 is
// to be minimised.
struct LinearProgram {
  struct Variable {
    double at_most = 1;
    bool whole = true;  // except in the relaxation
  };
  struct Row {
    std::vector<std::pair<int64_t, double>> terms;  // variable, factor
    double at_most = 0;
  };
  std::vector<Variable> variables;
  std::vector<Row> rows;

  // Returns by how much a row or a bound is exceeded at most, relative to the
  // largest term.
  double Excess(const std::vector<double>& point) const;
  // Returns the program in the free MPS format.
  std::string ToMps() const;
};

}  // namespace castor

#endif  // CASTOR_BENCHMARKS_LINEAR_PROGRAM_H_
