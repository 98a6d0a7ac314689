#include "insight/names.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "tracer/trace_names.h"

namespace castor {
namespace {

constexpr size_t kNameBytes = 64;       // of an operator in a text
constexpr size_t kParameterBytes = 44;  // of a parameter in a text
constexpr size_t kParametersShown = 2;

}  // namespace

std::string Shortened(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  // Names differ at both ends: "transformer.h.11.attn ... c_proj.weight".
  auto begins_character = [&](size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  };
  size_t head = (bytes - 3) / 2;
  size_t tail = text.size() - (bytes - 3 - head);
  while (head > 0 && !begins_character(head)) --head;
  while (tail < text.size() && !begins_character(tail)) ++tail;
  return absl::StrCat(text.substr(0, head), "...", text.substr(tail));
}

std::string StreamLabel(absl::string_view name) {
  if (name == "host_compute") return "CPU optimizer";
  if (name.empty()) return "unnamed stream";
  return absl::StrReplaceAll(name, {{"_", " "}});
}

std::string ParametersText(const std::vector<std::string>& parameters) {
  std::string text;
  const size_t shown = std::min(parameters.size(), kParametersShown);
  for (size_t i = 0; i < shown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    Shortened(parameters[i], kParameterBytes));
  }
  if (parameters.size() > shown) {
    absl::StrAppend(&text, " and ", parameters.size() - shown, " more");
  }
  return text;
}

std::string ChunkText(const TraceIndex& index, int64_t program, int64_t chunk) {
  if (chunk < 0) return "no chunk";
  const ChunkInfo* const info = index.Chunk(program, chunk);
  const std::string parameters =
      info == nullptr ? "" : ParametersText(info->parameters);
  return parameters.empty()
             ? absl::StrCat("chunk ", chunk)
             : absl::StrCat("chunk ", chunk, " (", parameters, ")");
}

std::string OperatorText(const TraceIndex& index, int64_t program,
                         int64_t moment) {
  if (moment < 0) return "an operator";
  const OpRecord* const op = index.Op(program, moment);
  if (op == nullptr || op->name.empty()) {
    return absl::StrCat("operator ", moment);
  }
  return absl::StrCat("\"", Shortened(op->name, kNameBytes), "\"");
}

std::string WorkText(WorkKind kind) {
  return absl::StrReplaceAll(RowOf(kind).name, {{"_", " "}});
}

std::string WorkLabel(const TraceIndex& index, WorkKind kind, int64_t stream,
                      int64_t program, int64_t moment, int64_t chunk) {
  const std::string of_chunk = chunk < 0 ? "" : absl::StrCat(" chunk ", chunk);
  const OpRecord* const op = index.Op(program, moment);
  const bool named = op != nullptr && !op->name.empty();
  switch (kind) {
    case WorkKind::kOperator:
      return named         ? op->name
             : moment >= 0 ? absl::StrCat("operator ", moment)
                           : "operator";
    case WorkKind::kClip:
      return stream >= 0 && stream == index.network() ? "norm over all ranks"
                                                      : "gradient norm";
    case WorkKind::kInput:
      if (stream == index.to_host()) return "loss to the host";
      if (stream >= 0 && stream == index.data()) return "wait for data";
      if (stream >= 0 && stream == index.network()) {
        return "losses of all ranks";
      }
      return named ? op->name : moment >= 0 ? "input" : "loss to the host";
    case WorkKind::kMove:
      return chunk < 0 ? "move optimizer states"
                       : absl::StrCat("move optimizer states of", of_chunk);
    case WorkKind::kExchange:
      return absl::StrCat("exchange gradients of",
                          chunk < 0 ? " a chunk" : of_chunk);
    case WorkKind::kSaving:
      return "saving a checkpoint";
    case WorkKind::kResizing:
      return "resizing the device's memory";
    case WorkKind::kOther:
      return stream >= 0 && stream == index.network()
                 ? "a word among all ranks"
                 : "set-up, or a move within device memory";
    default:
      return absl::StrCat(WorkText(kind), of_chunk);
  }
}

absl::string_view OpKindName(OpKind kind) {
  const size_t i = static_cast<size_t>(kind);
  return i < std::size(trace_names::kKinds) ? trace_names::kKinds[i]
                                            : "unknown";
}

absl::string_view PhaseName(Phase phase) {
  const size_t i = static_cast<size_t>(phase);
  return i < std::size(trace_names::kPhases) ? trace_names::kPhases[i]
                                             : "unknown";
}

std::string FormatNs(int64_t ns) {
  if (ns < 1'000) return absl::StrCat(ns, " ns");
  double value = static_cast<double>(ns) * 1e-3;
  const char* unit = "us";
  for (const char* const larger : {"ms", "s"}) {
    if (value < 999.5) break;
    value *= 1e-3;
    unit = larger;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

int64_t StringTable::Add(std::string text) {
  const auto [at, is_new] =
      index_.try_emplace(text, static_cast<int64_t>(strings_.size()));
  if (is_new) {
    bytes_ += static_cast<int64_t>(text.size());
    strings_.push_back(std::move(text));
  }
  return at->second;
}

}  // namespace castor
