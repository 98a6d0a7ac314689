// Two traces beside each other: what was changed, and what came of it.
#ifndef CASTOR_INSIGHT_COMPARE_H_
#define CASTOR_INSIGHT_COMPARE_H_

#include <string>
#include <vector>

#include "insight/trace_view.h"

namespace castor {

struct Comparison {
  struct Row {
    std::string name;
    std::string unit;  // "ns", "bytes", "count", "bytes_per_s", "tokens_per_s"
    double a = 0;
    double b = 0;
  };
  std::vector<Row> rows;
  std::vector<std::string> notes;  // sentences, what was changed first
};

// Compares the first view with the second. Rows are those that both views have.
Comparison CompareViews(const TraceView& a, const TraceView& b);

}  // namespace castor

#endif  // CASTOR_INSIGHT_COMPARE_H_
