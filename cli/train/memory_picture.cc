#include "cli/train/memory_picture.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "memory/plan/simulate/simulator.h"

namespace castor::cli {
namespace {

constexpr int kColumns = 66;
constexpr int kRows = 14;

// The parts of a column, from its bottom upwards.
enum Part { kOptimizer, kPayload, kActivations, kWorkspace, kParts };
constexpr char kLetters[] = "opaw";
using Stack = std::array<int64_t, kParts>;

int64_t Total(const Stack& stack) {
  int64_t total = 0;
  for (int64_t bytes : stack) total += bytes;
  return total;
}

// Returns the bytes on the device, by category, while each operator runs.
std::vector<Stack> StacksOf(const Plan& plan, const PlanRequest& request) {
  const StepTrace& trace = *request.trace;
  int64_t optimizer = request.device_reserved_bytes;
  for (size_t i = 0; i < trace.chunks.size(); ++i) {
    if (plan.side[i] == Side::kDevice) {
      optimizer += RoundUp(trace.chunks[i].optimizer_bytes, kBlockAlignment);
    }
  }
  const std::vector<int64_t> bytes = SimulatePlan(plan, request).device_bytes;
  std::vector<Stack> stacks;
  for (size_t t = 0; t < trace.ops.size(); ++t) {
    const OpRecord& op = trace.ops[t];
    Stack stack{};
    stack[kOptimizer] = optimizer;
    stack[kWorkspace] = op.workspace_bytes;
    stack[kActivations] = op.non_model_peak_bytes - op.workspace_bytes;
    stack[kPayload] = bytes[t] - Total(stack);
    stacks.push_back(stack);
  }
  return stacks;
}

// The letter at a height of the column: of the part whose bytes are there.
char LetterAt(const Stack& stack, int64_t height_bytes) {
  int64_t top = 0;
  for (int part = 0; part < kParts; ++part) {
    top += stack[part];
    if (height_bytes < top) return kLetters[part];
  }
  return ' ';
}

// The line under the columns that says where each phase begins.
std::string PhaseLine(const StepTrace& trace) {
  std::string line(kColumns, ' ');
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  const int64_t ops = static_cast<int64_t>(trace.ops.size());
  int64_t free_from = 0;
  for (int64_t t = 0; t < ops; ++t) {
    if (t > 0 && trace.ops[t].phase == trace.ops[t - 1].phase) continue;
    const std::string name = kNames[static_cast<int>(trace.ops[t].phase)];
    const int64_t column = std::max(free_from, t * kColumns / ops);
    if (column + static_cast<int64_t>(name.size()) + 1 > kColumns) continue;
    line.replace(column, name.size() + 1, "|" + name);
    free_from = column + static_cast<int64_t>(name.size()) + 2;
  }
  return line;
}

}  // namespace

std::string MemoryPicture(const Plan& plan, const PlanRequest& request) {
  const std::vector<Stack> stacks = StacksOf(plan, request);
  const int64_t ops = static_cast<int64_t>(stacks.size());
  std::vector<Stack> columns;
  for (int column = 0; column < kColumns; ++column) {
    const int64_t begin = column * ops / kColumns;
    const int64_t end = std::max(begin + 1, (column + 1) * ops / kColumns);
    columns.push_back(*std::max_element(
        stacks.begin() + begin, stacks.begin() + std::min(end, ops),
        [](const Stack& a, const Stack& b) { return Total(a) < Total(b); }));
  }
  const int64_t budget = request.device_budget_bytes;
  std::string text =
      absl::StrCat("device memory over one step, operator by operator (budget ",
                   FormatBytes(budget), ")\n");
  for (int row = kRows; row >= 1; --row) {
    // A cell shows what lies at the middle of its height.
    const int64_t height = (2 * row - 1) * (budget / (2 * kRows));
    const bool labelled = row == kRows || row == kRows / 2;
    absl::StrAppend(
        &text,
        absl::StrFormat("%10s |", labelled ? FormatBytes(budget * row / kRows)
                                           : std::string()));
    std::string line;
    for (const Stack& column : columns) line += LetterAt(column, height);
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  absl::StrAppend(&text, std::string(11, ' '), "+", std::string(kColumns, '-'),
                  "\n", std::string(12, ' '), PhaseLine(*request.trace), "\n",
                  std::string(12, ' '),
                  "o optimizer states  p parameters and gradients  "
                  "a activations  w workspace\n");
  return text;
}

}  // namespace castor::cli
