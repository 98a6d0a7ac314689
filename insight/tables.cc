#include "insight/tables.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "insight/names.h"
#include "insight/notes.h"

namespace castor {
namespace {

// The name with a star for each number: "h.11.attn" is "h.*.attn", but "ln_1"
// stays, whose number is a part of a name.
std::string Pattern(absl::string_view name) {
  std::string pattern;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && absl::ascii_isdigit(name[end])) ++end;
    const auto parts = [](char c) { return c == '.' || c == '/' || c == ' '; };
    if (end > i && (i == 0 || parts(name[i - 1])) &&
        (end == name.size() || parts(name[end]))) {
      pattern.push_back('*');
      i = end;
    } else {
      pattern.push_back(name[i++]);
    }
  }
  return pattern;
}

// The module and the kind in the pattern of an operator's name.
void Name(const OpRecord& op, bool training, TraceView::ModuleRow* row) {
  if (op.kind != OpKind::kCompute) {
    row->module = "all chunks";
    row->kind = std::string(OpKindName(op.kind));
    return;
  }
  const size_t slash = row->pattern.rfind('/');
  row->module = row->pattern.substr(0, slash);
  if (slash != std::string::npos) row->kind = row->pattern.substr(slash + 1);
  if (!training) {
    row->kind = absl::StrCat("eval ", row->kind);
  } else if (op.phase == Phase::kBackward && row->kind == "forward") {
    row->kind = "forward again";
  }
}

}  // namespace

std::vector<TraceView::ModuleRow> ModuleTable(
    const std::vector<TraceView::OperatorRow>& operators,
    const std::vector<TraceView::Program>& programs,
    const std::vector<TraceView::Step>& steps) {
  double step_ns[2] = {0, 0};  // of evaluations, of training
  for (const TraceView::Step& step : steps) {
    step_ns[step.step > 0] += static_cast<double>(step.end_ns - step.start_ns);
  }
  std::map<std::pair<std::string, std::string>, TraceView::ModuleRow> rows;
  for (const TraceView::OperatorRow& each : operators) {
    if (each.count == 0) continue;
    const TraceView::Program& program = programs[each.program];
    const OpRecord& op = program.ops[each.moment];
    std::string pattern = Pattern(op.name);
    const std::string phase(program.training ? PhaseName(op.phase)
                                             : "evaluation");
    const auto [at, is_new] = rows.try_emplace({pattern, phase});
    TraceView::ModuleRow& row = at->second;
    if (is_new) {
      row.pattern = std::move(pattern);
      row.phase = phase;
      Name(op, program.training, &row);
    }
    ++row.operators;
    row.count = AddUpTo(row.count, each.count);
    row.total_ns = AddUpTo(row.total_ns, each.total_ns);
    row.max_ns = std::max(row.max_ns, each.max_ns);
    row.flops +=
        static_cast<double>(op.flops) * static_cast<double>(each.count);
    row.peak_bytes = std::max(row.peak_bytes, each.peak_bytes);
    row.wait_ns = AddUpTo(row.wait_ns, each.wait_ns);
  }
  std::vector<TraceView::ModuleRow> table;
  for (auto& [key, row] : rows) {
    const double all_ns = step_ns[row.phase != "evaluation"];
    row.share = all_ns <= 0 ? 0 : static_cast<double>(row.total_ns) / all_ns;
    table.push_back(std::move(row));
  }
  std::stable_sort(
      table.begin(), table.end(),
      [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return table;
}

std::vector<TraceView::OperatorRow> OperatorTable(const TraceIndex& index,
                                                  const SpanList& list) {
  std::vector<TraceView::OperatorRow> rows;
  std::vector<int64_t> first;  // row of each program's moment 0
  for (int64_t p = 0; p < index.num_programs(); ++p) {
    first.push_back(static_cast<int64_t>(rows.size()));
    const int64_t ops = static_cast<int64_t>(index.Trace(p)->ops.size());
    for (int64_t t = 0; t < ops; ++t) {
      rows.push_back({.program = p, .moment = t});
    }
  }
  auto row_of = [&](int64_t program, int64_t moment) {
    return index.Op(program, moment) == nullptr
               ? nullptr
               : &rows[first[program] + moment];
  };
  for (size_t i = 0; i < list.spans.size(); ++i) {
    const TraceView::Span& span = list.spans[i];
    const WorkKind kind = list.links.kind[i];
    const bool runs_it =
        kind == WorkKind::kOperator || kind == WorkKind::kReduce ||
        kind == WorkKind::kUpdate ||
        (kind == WorkKind::kInput && span.stream == index.compute());
    if (!runs_it || span.step < 0) continue;
    TraceView::OperatorRow* const row =
        row_of(list.links.program[i], span.moment);
    if (row == nullptr) continue;
    const int64_t ns = span.end_ns - span.start_ns;
    if (span.kind >= 0) {
      ++row->count;
      row->total_ns = AddUpTo(row->total_ns, ns);
      row->max_ns = std::max(row->max_ns, ns);
    } else if (span.stream == index.compute()) {
      row->wait_ns = AddUpTo(row->wait_ns, ns);
    }
  }
  for (const IssueRecord& issue : index.contents().issues) {
    TraceView::OperatorRow* const row =
        row_of(index.ProgramOfStep(issue.step), issue.moment.value);
    if (row == nullptr) continue;
    row->peak_bytes = std::max(row->peak_bytes, issue.used_bytes);
  }
  return rows;
}

std::vector<TraceView::ChunkRow> ChunkTable(
    const TraceIndex& index, const SpanList& list,
    const std::vector<TraceView::Residency>& residency, TimeWindow window,
    int64_t settled_plan) {
  std::vector<TraceView::ChunkRow> rows(index.num_chunks());
  int64_t most_chunks = index.main_program();
  for (int64_t p = 0; p < index.num_programs(); ++p) {
    if (index.Trace(p)->chunks.size() >
        index.Trace(most_chunks)->chunks.size()) {
      most_chunks = p;
    }
  }
  for (int64_t c = 0; c < static_cast<int64_t>(rows.size()); ++c) {
    TraceView::ChunkRow& row = rows[c];
    row.chunk = c;
    row.on_device_side = index.OnDeviceSide(settled_plan, c);
    const ChunkInfo* chunk = index.Chunk(index.main_program(), c);
    if (chunk == nullptr) chunk = index.Chunk(most_chunks, c);
    if (chunk == nullptr) continue;
    row.payload_bytes = chunk->payload_bytes;
    row.optimizer_bytes = chunk->optimizer_bytes;
    row.parameters = ParametersText(chunk->parameters);
  }
  auto row_of = [&](int64_t chunk) {
    return chunk >= 0 && chunk < static_cast<int64_t>(rows.size())
               ? &rows[chunk]
               : nullptr;
  };
  for (size_t i = 0; i < list.spans.size(); ++i) {
    const TraceView::Span& span = list.spans[i];
    const bool wait = span.kind < 0;
    if (wait && span.stream != index.compute()) continue;
    int64_t chunk = span.chunk;
    if (wait && chunk < 0 && span.cause >= 0) {
      chunk = list.spans[span.cause].chunk;
    }
    TraceView::ChunkRow* const row = row_of(chunk);
    if (row == nullptr) continue;
    if (wait) {
      row->wait_ns = AddUpTo(row->wait_ns, span.end_ns - span.start_ns);
    } else if (DirectionOf(span) == CopyDirection::kToDevice) {
      ++row->fetches;
      row->fetched_bytes = AddUpTo(row->fetched_bytes, span.bytes);
    } else if (DirectionOf(span) == CopyDirection::kToHost) {
      row->copied_back_bytes = AddUpTo(row->copied_back_bytes, span.bytes);
    }
  }
  const double length = static_cast<double>(window.end_ns - window.start_ns);
  for (const TraceView::Residency& interval : residency) {
    TraceView::ChunkRow* const row = row_of(interval.chunk);
    if (row == nullptr || !OnDevice(interval.state) || length <= 0) continue;
    row->resident_share +=
        static_cast<double>(interval.end_ns - interval.start_ns) / length;
  }
  for (TraceView::ChunkRow& row : rows) {
    row.resident_share = std::min(row.resident_share, 1.0);
  }
  return rows;
}

std::vector<TraceView::BlockRow> BlockTable(
    const TraceIndex& index, const std::vector<TraceView::ChunkRow>& chunks,
    int64_t settled_plan) {
  const int64_t program = index.ProgramOfPlan(settled_plan) >= 0
                              ? index.ProgramOfPlan(settled_plan)
                              : index.main_program();
  const StepTrace* const trace = index.Trace(program);
  if (trace == nullptr) return {};
  std::map<int64_t, TraceView::BlockRow> rows;
  for (const BlockRecord& block : trace->blocks) {
    const auto [at, is_new] = rows.try_emplace(block.block);
    if (!is_new) continue;
    TraceView::BlockRow& row = at->second;
    row.block = block.block;
    row.forward = block.forward.value;
    row.backward = block.backward.value;
    for (int64_t i = 0; i < block.operators(); ++i) {
      const OpRecord* const op = index.Op(program, block.forward.value + i);
      if (op == nullptr) break;
      if (i == 0) row.name = op->name;
      row.again_ns = AddUpTo(row.again_ns, op->duration_ns);
    }
    if (!block.kept) {
      row.choice = kMadeAgain;
      row.spared_bytes = std::max<int64_t>(0, block.kept_bytes);
      continue;
    }
    row.choice = block.offloaded ? kByTheHost : kKept;
    row.host_bytes = block.offloaded ? block.offload_bytes : 0;
    row.device_bytes =
        std::max<int64_t>(0, AddUpTo(block.kept_bytes, -row.host_bytes));
  }
  for (size_t c = 0; c < trace->chunks.size(); ++c) {
    const auto at = rows.find(trace->chunks[c].block);
    if (!trace->chunks[c].holds_activations() || at == rows.end()) continue;
    TraceView::BlockRow& row = at->second;
    row.chunk = static_cast<int64_t>(c);
    if (c >= chunks.size()) continue;
    row.copied_back_bytes = chunks[c].copied_back_bytes;
    row.fetched_bytes = chunks[c].fetched_bytes;
    row.wait_ns = chunks[c].wait_ns;
  }
  std::vector<TraceView::BlockRow> table;
  for (auto& [block, row] : rows) table.push_back(std::move(row));
  return table;
}

std::vector<TraceView::WaitRow> WaitTable(const TraceIndex& index,
                                          const SpanList& list,
                                          const WaitCauses& causes) {
  // Cause, stream, remedy without a chunk's size.
  std::map<std::tuple<int64_t, int64_t, int64_t, std::string>,
           TraceView::WaitRow>
      rows;
  // The same for the same plan.
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, Exposure>,
           TraceView::WaitRow*>
      known;
  for (size_t i = 0; i < list.spans.size(); ++i) {
    const TraceView::Span& span = list.spans[i];
    if (span.kind >= 0) continue;
    const WaitFinding& finding = causes.findings[i];
    const int64_t number = static_cast<int64_t>(finding.cause);
    TraceView::WaitRow*& row =
        known[{number, finding.rank, span.stream, index.PlanOfStep(span.step),
               finding.exposure}];
    if (row == nullptr) {
      std::string remedy =
          RemedyText(index, finding, index.PlanRecordOfStep(span.step),
                     index.main_program(), nullptr, /*at_the_cpu=*/false);
      row = &rows[{number, finding.rank, span.stream, remedy}];
      row->cause = CauseText(finding);
      row->remedy = std::move(remedy);
      row->stream = span.stream;
    }
    const int64_t ns = span.end_ns - span.start_ns;
    ++row->count;
    row->total_ns = AddUpTo(row->total_ns, ns);
    if (ns > row->max_ns || row->longest_span < 0) {
      row->max_ns = ns;
      row->longest_span = static_cast<int64_t>(i);
    }
  }
  std::vector<TraceView::WaitRow> table;
  for (auto& [key, row] : rows) table.push_back(std::move(row));
  std::stable_sort(table.begin(), table.end(),
                   [&](const auto& a, const auto& b) {
                     const bool exposed_a = a.stream == index.compute();
                     const bool exposed_b = b.stream == index.compute();
                     return std::make_tuple(!exposed_a, -a.total_ns) <
                            std::make_tuple(!exposed_b, -b.total_ns);
                   });
  return table;
}

}  // namespace castor
