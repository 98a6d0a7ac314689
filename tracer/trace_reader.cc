#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tracer/trace_file.h"
#include "tracer/trace_names.h"

namespace castor {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 6;

std::string Printable(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text.substr(0, 80)),
                      text.size() > 80 ? "...\"" : "\"");
}

// Reads the keys of one object; the first thing that is wrong stays in
// `error`, after which the values are without meaning.
class Fields {
 public:
  Fields(const Json& object, std::string where, std::string* error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (!object.is_object()) Fail("", "is no object");
  }

  bool ok() const { return error_->empty(); }

  void Fail(absl::string_view key, absl::string_view why) {
    if (!ok()) return;
    *error_ =
        absl::StrCat(where_, key.empty() || where_.empty() ? "" : ".", key,
                     where_.empty() && key.empty() ? "the record " : " ", why);
  }

  int64_t Int(absl::string_view key, int64_t min = 0,
              int64_t max = kMaxTraceNumber) {
    const Json* value = Get(key);
    if (value == nullptr) return 0;
    int64_t number = 0;
    if (!AsInt(*value, &number) || number < min || number > max) {
      Fail(key, absl::StrCat("must be an integer from ", min, " to ", max));
    }
    return number;
  }

  bool Bool(absl::string_view key) {
    const Json* value = Get(key);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    Fail(key, "must be true or false");
    return false;
  }

  std::string String(absl::string_view key) {
    const Json* value = Get(key);
    if (value == nullptr) return "";
    if (IsName(*value)) return value->get<std::string>();
    Fail(key, absl::StrCat("must be a string of at most ", kMaxTraceNameBytes,
                           " bytes"));
    return "";
  }

  template <typename Enum>
  Enum OneOf(absl::string_view key, absl::Span<const absl::string_view> names) {
    const std::string name = String(key);
    for (size_t i = 0; i < names.size(); ++i) {
      if (name == names[i]) return static_cast<Enum>(i);
    }
    Fail(key, absl::StrCat("is ", Printable(name), ", not one of ",
                           absl::StrJoin(names, ", ")));
    return Enum();
  }

  const Json& List(absl::string_view key) {
    static const Json& none = *new Json(Json::array());
    const Json* value = Get(key);
    if (value == nullptr) return none;
    if (value->is_array() &&
        static_cast<int64_t>(value->size()) <= kMaxTraceItems) {
      return *value;
    }
    Fail(key, absl::StrCat("must be a list of at most ", kMaxTraceItems));
    return none;
  }

  const Json& Object(absl::string_view key) {
    static const Json& none = *new Json(Json::object());
    const Json* value = Get(key);
    if (value == nullptr) return none;
    if (value->is_object()) return *value;
    Fail(key, "must be an object");
    return none;
  }

  // To be called last: a key that was not asked for is an error.
  void Done() {
    if (ok() && object_.size() != used_.size()) {
      for (const auto& [key, value] : object_.items()) {
        if (!used_.contains(key)) {
          return Fail("", absl::StrCat("has the unknown key ", Printable(key)));
        }
      }
    }
  }

  static bool AsInt(const Json& value, int64_t* number) {
    if (!value.is_number_integer()) return false;  // unsigned included
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return false;
    }
    *number = value.get<int64_t>();
    return true;
  }

  static bool IsName(const Json& value) {
    return value.is_string() &&
           static_cast<int64_t>(value.get_ref<const std::string&>().size()) <=
               kMaxTraceNameBytes;
  }

 private:
  const Json* Get(absl::string_view key) {
    if (!ok()) return nullptr;
    const std::string name(key);
    const auto found = object_.find(name);
    if (found == object_.end()) {
      Fail(key, "is missing");
      return nullptr;
    }
    used_.insert(name);
    return &*found;
  }

  const Json& object_;
  const std::string where_;
  std::string* const error_;
  std::set<std::string> used_;
};

std::vector<std::string> Names(Fields& fields, absl::string_view key) {
  std::vector<std::string> names;
  for (const Json& name : fields.List(key)) {
    if (!Fields::IsName(name)) {
      fields.Fail(key, "must hold strings");
      return {};
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Ascending chunk numbers below `end`.
std::vector<int64_t> ChunkIds(Fields& fields, absl::string_view key,
                              int64_t end) {
  std::vector<int64_t> ids;
  for (const Json& item : fields.List(key)) {
    int64_t id = 0;
    const int64_t least = ids.empty() ? 0 : ids.back() + 1;
    if (!Fields::AsInt(item, &id) || id < least || id >= end) {
      fields.Fail(
          key, absl::StrCat("must hold ascending chunk numbers below ", end));
      return {};
    }
    ids.push_back(id);
  }
  return ids;
}

OpRecord ReadOp(const Json& json, size_t moment, const StepTrace& trace,
                std::string* error) {
  Fields fields(json, absl::StrCat("ops[", moment, "]"), error);
  OpRecord op;
  op.name = fields.String("name");
  op.kind = fields.OneOf<OpKind>("kind", trace_names::kKinds);
  op.phase = fields.OneOf<Phase>("phase", trace_names::kPhases);
  const int64_t num_chunks = static_cast<int64_t>(trace.chunks.size());
  const std::vector<int64_t> chunks = ChunkIds(fields, "chunks", num_chunks);
  const std::vector<int64_t> writes = ChunkIds(fields, "writes", num_chunks);
  size_t next_write = 0;
  for (const int64_t id : chunks) {
    const bool writes_it =
        next_write < writes.size() && writes[next_write] == id;
    if (writes_it) ++next_write;
    op.chunks.push_back({ChunkId(id), writes_it});
  }
  if (next_write < writes.size()) {
    fields.Fail("writes", "must be among its chunks");
  }
  op.non_model_peak_bytes = fields.Int("non_model_peak_bytes");
  op.workspace_bytes =
      fields.Int("workspace_bytes", 0, op.non_model_peak_bytes);
  op.duration_ns = fields.Int("duration_ns");
  op.host_duration_ns = fields.Int("host_duration_ns");
  fields.Done();
  if (fields.ok() && op.kind != OpKind::kCompute) {
    if (!trace.training) {
      fields.Fail("kind", "must be compute in a trace without training");
    } else if (op.chunks.size() != 1) {
      fields.Fail("chunks", "must hold one chunk for this kind");
    } else if (trace.chunks[op.chunks[0].chunk.value].optimizer_bytes == 0) {
      fields.Fail("chunks", "names a chunk without optimizer states");
    }
  }
  return op;
}

void ReadStepTrace(Fields& fields, StepTrace* trace, std::string* error) {
  trace->signature = fields.String("signature");
  trace->training = fields.Bool("training");
  trace->micro_batches = fields.Int("micro_batches", 1);
  trace->measured = fields.Bool("measured");
  const Json& chunks = fields.List("chunks");
  const Json& ops = fields.List("ops");
  fields.Done();
  // Sums of any number of them stay within int64_t.
  int64_t total_bytes = 0;
  for (size_t i = 0; i < chunks.size() && fields.ok(); ++i) {
    Fields item(chunks[i], absl::StrCat("chunks[", i, "]"), error);
    ChunkInfo& chunk = trace->chunks.emplace_back();
    chunk.payload_bytes = item.Int("payload_bytes");
    chunk.optimizer_bytes = item.Int("optimizer_bytes");
    chunk.parameters = Names(item, "parameters");
    item.Done();
    total_bytes += chunk.payload_bytes + chunk.optimizer_bytes;
    if (total_bytes > kMaxTraceNumber) {
      item.Fail("", "makes the model larger than 2^60 bytes");
    }
  }
  int64_t total_ns = 0;
  for (size_t i = 0; i < ops.size() && fields.ok(); ++i) {
    trace->ops.push_back(ReadOp(ops[i], i, *trace, error));
    total_ns += trace->ops.back().duration_ns;
    total_ns += trace->ops.back().host_duration_ns;
    if (total_ns > kMaxTraceNumber) {
      fields.Fail("ops", "take longer than 2^60 ns together");
    }
  }
}

void ReadSpan(Fields& fields, SpanRecord* span) {
  span->stream = fields.String("stream");
  span->name = fields.String("name");
  span->start_ns = fields.Int("start_ns");
  span->end_ns = fields.Int("end_ns", span->start_ns);
  span->step = fields.Int("step");
  fields.Done();
}

void ReadMemory(Fields& fields, MemoryRecord* memory) {
  memory->tier = fields.String("tier");
  memory->time_ns = fields.Int("time_ns");
  const Json& bytes = fields.Object("bytes");
  fields.Done();
  if (static_cast<int64_t>(bytes.size()) > 1000) {
    return fields.Fail("bytes", "must hold at most 1000 categories");
  }
  int64_t total = 0;
  for (const auto& [category, value] : bytes.items()) {
    int64_t size = 0;
    if (!Fields::AsInt(value, &size) || size < 0 || size > kMaxTraceNumber ||
        (total += size) > kMaxTraceNumber ||
        static_cast<int64_t>(category.size()) > kMaxTraceNameBytes) {
      return fields.Fail("bytes",
                         absl::StrCat("must hold named integers that sum up to "
                                      "at most ",
                                      kMaxTraceNumber));
    }
    memory->bytes[category] = size;
  }
}

// `error` stays empty if all is well.
Json ParseLine(absl::string_view line, std::string* error) {
  bool too_deep = false;
  const auto watch_depth = [&](int depth, Json::parse_event_t event,
                               const Json&) {
    const bool opens = event == Json::parse_event_t::object_start ||
                       event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth) too_deep = true;
    return !too_deep;
  };
  try {
    Json json = Json::parse(line.begin(), line.end(), watch_depth);
    if (!too_deep) return json;
    *error = absl::StrCat("is nested deeper than ", kMaxDepth);
  } catch (const std::exception& exception) {
    const std::string what = exception.what();
    *error = absl::StrCat("is no JSON: ",
                          absl::Utf8SafeCHexEscape(what.substr(0, 200)));
  }
  return Json();
}

void ReadRecord(const Json& json, TraceContents* contents, std::string* error) {
  Fields fields(json, "", error);
  const std::string type = fields.String("type");
  if (type == "step_trace") {
    ReadStepTrace(fields, &contents->step_traces.emplace_back(), error);
  } else if (type == "span") {
    ReadSpan(fields, &contents->spans.emplace_back());
  } else if (type == "memory") {
    ReadMemory(fields, &contents->memory.emplace_back());
  } else {
    fields.Fail("type", absl::StrCat("is ", Printable(type),
                                     ", not one of step_trace, span, memory"));
  }
}

void ReadHeader(const Json& json, std::string* error) {
  Fields fields(json, "", error);
  const std::string format = fields.String("format");
  if (format != trace_names::kFormat) {
    fields.Fail("format", absl::StrCat("must be \"", trace_names::kFormat,
                                       "\": this is no Castor trace"));
  }
  const int64_t version = fields.Int("version");
  if (version != kTraceFormatVersion) {
    fields.Fail("version", absl::StrCat("is ", version,
                                        ", and this program "
                                        "reads ",
                                        kTraceFormatVersion));
  }
  fields.Done();
}

}  // namespace

absl::StatusOr<TraceContents> ParseTrace(absl::string_view text,
                                         absl::string_view source) {
  TraceContents contents;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == absl::string_view::npos) {
      contents.truncated = true;
      break;
    }
    const absl::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++number;
    std::string error;
    if (static_cast<int64_t>(line.size()) > kMaxTraceLineBytes) {
      error = absl::StrCat("is longer than ", kMaxTraceLineBytes, " bytes");
    }
    const Json json = error.empty() ? ParseLine(line, &error) : Json();
    if (error.empty()) {
      number == 1 ? ReadHeader(json, &error)
                  : ReadRecord(json, &contents, &error);
    }
    if (!error.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ", line ", number, ": ", error));
    }
  }
  if (number == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has no complete first line: no Castor trace"));
  }
  return contents;
}

absl::StatusOr<TraceContents> ReadTraceFile(const std::string& path) {
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  if (error || !regular) {
    return absl::NotFoundError(
        absl::StrCat("trace file \"", path, "\" does not exist"));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > static_cast<uintmax_t>(kMaxTraceBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trace file \"", path, "\" is larger than ", kMaxTraceBytes, " bytes"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (file.bad() || !file.is_open()) {
    return absl::UnavailableError(
        absl::StrCat("trace file \"", path, "\" cannot be read"));
  }
  // It may have been cut since its size was asked for.
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseTrace(text, path);
}

}  // namespace castor
